"""What the user configures: streams, tables and their checks. No I/O."""
