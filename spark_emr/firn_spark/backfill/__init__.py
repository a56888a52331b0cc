"""Chunks of a backfill on the executors: read, put into the form of staged batches, and staged."""
