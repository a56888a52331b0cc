"""Small ranges of epochs without a Spark stage, in the job's own process (docs/adr/0015-driver-path.md)."""
