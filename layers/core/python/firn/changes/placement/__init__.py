"""Which shard of a table a row belongs to, and how that changes while changes come (docs/adr/0104-shards.md). Pure."""
