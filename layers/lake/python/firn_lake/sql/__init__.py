"""SQL over the tables of one lake or of several, in DuckDB, which reads only what a query needs."""
