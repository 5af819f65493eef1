"""Quadrants, pixel by pixel."""

from examples.folders import write_folder_example


def write(folder):
    return write_folder_example(folder, "--bad-files", "0.2")
