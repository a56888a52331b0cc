"""The commit job: session, read, fold, merge, append, evolve."""
