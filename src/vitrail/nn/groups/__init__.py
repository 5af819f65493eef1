"""Layers that commute with turning and mirroring: f(g·x) = g·f(x) for every g of a group of the plane."""
