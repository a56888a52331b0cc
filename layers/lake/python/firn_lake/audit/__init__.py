"""Whether the tables hold what the log says, row by row."""
