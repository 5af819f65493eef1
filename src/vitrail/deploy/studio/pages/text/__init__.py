"""Sentences, what a model writes, and which words each word attends to."""
