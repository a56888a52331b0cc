"""Data files of a table, read and written without the JVM by whatever process has their rows."""
