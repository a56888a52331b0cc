"""Rebuilding a table from the log."""
