"""The durable log in object storage: staged batches, epochs, cuts, dead letters."""
