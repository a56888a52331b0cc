"""All shards of a table as one (docs/adr/0110-shards-as-one-table.md)."""
