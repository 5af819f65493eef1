"""Quadrants, whose classes nobody says."""

from examples.folders import write_folder_example


def write(folder):
    return write_folder_example(folder, "--model", "vit_nano_patch4_32", "--bad-files", "0.2")
