"""Maintenance of tables with Spark and Iceberg: compaction, expiry, orphans, health."""
