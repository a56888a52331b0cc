"""A mirror table's commit by slices of its keys, in Spark's tasks: each does what the job's own process does."""
