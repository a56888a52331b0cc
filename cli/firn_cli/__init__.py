"""The `firn` command: parses, calls, prints. Nobody imports it, and no Lambda carries it."""
