"""Maintenance of tables: health, compaction, expiry, orphans, tiering, and what of it is due."""
