"""Pipelines whose target is files: which epochs go into which files, and that they are written once."""
