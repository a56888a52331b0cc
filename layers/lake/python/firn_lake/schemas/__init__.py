"""Columns, types and partitions: from Arrow, into SQL, and changed without losing their history."""
