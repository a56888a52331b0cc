"""Staged changes: read, decoded and surveyed by the executors."""
