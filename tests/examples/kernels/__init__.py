"""Toy kernels: each is one file, and one line here. Tests lay this table over that of the library."""

from examples.kernels.carried import CarriedKernel
from examples.kernels.narrow import NarrowKernel
from examples.kernels.redrawn import RedrawnKernel
from examples.kernels.spread import SpreadKernel
from examples.kernels.whole import build_whole

TOYS = {
    "carried": CarriedKernel,
    "redrawn": RedrawnKernel,
    "spread": SpreadKernel,
    "narrow": NarrowKernel,
    "whole": build_whole,
}
