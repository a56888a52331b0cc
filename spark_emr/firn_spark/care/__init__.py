"""Looking after tables: compaction, expiry, orphans, and how they are."""
