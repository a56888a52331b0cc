"""Tables outside Spark: catalogs, snapshots, SQL over any point in time (PyIceberg and DuckDB)."""
