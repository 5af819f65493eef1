"""Images of which patches are masked, and what a model draws in their place."""
