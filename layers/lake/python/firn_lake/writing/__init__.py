"""Writing without Spark: for small tables, and tables of one's own beside those that streams feed."""
