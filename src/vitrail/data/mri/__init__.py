"""Scans: reading and simulating the k-space of several coils, which lines are measured, and the coils' sensitivities."""
