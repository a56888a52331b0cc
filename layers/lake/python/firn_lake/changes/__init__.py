"""What changed between two snapshots, once or followed for ever."""
