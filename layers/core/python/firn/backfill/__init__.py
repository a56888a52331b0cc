"""Backfill: a source's rows, staged as snapshot reads while the stream of its changes runs (docs/backfill.md)."""
