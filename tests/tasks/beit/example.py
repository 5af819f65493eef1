"""Quadrants in the codes of the example of the discrete VAE."""

from dataclasses import replace

from examples.folders import write_folder_example


def write(folder):
    return replace(write_folder_example(folder, "--tokenizer", "{dvae}", "--bad-files", "0.2"), needs=("dvae",))
