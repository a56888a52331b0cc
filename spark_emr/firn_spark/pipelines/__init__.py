"""SQL between a source table and a table: its rows on their way into append tables, and mirrors that rest on a mirror
(docs/adr/0052-pipelines.md)."""
