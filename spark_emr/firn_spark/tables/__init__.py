"""Iceberg tables through its own Java API: look, evolve, write files, commit behind the fence."""
