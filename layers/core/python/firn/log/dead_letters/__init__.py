"""Dead letters: events that can't be taken, kept with their reason and original bytes."""
