"""The durable log: staged batches, epochs, cuts, dead letters."""
