"""When a table, an epoch or a stream is held."""
