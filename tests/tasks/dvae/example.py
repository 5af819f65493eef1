"""Quadrants in eight codes."""

from examples.folders import write_folder_example


def write(folder):
    return write_folder_example(folder, "--codes", "8", "--bad-files", "0.2")
