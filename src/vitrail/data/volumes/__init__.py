"""Volumes of voxels with labels: reading and writing NIfTI, intensities, spacing, and crops to learn from."""
