"""A large table filled while pgbench writes and deletes in it."""
