"""The rows of a table with all that was acknowledged and no commit has yet."""
