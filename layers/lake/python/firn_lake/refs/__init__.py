"""Names for snapshots, moving them, and letting go of what has none."""
