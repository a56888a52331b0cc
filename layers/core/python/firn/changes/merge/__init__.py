"""What a table holds once changes are known: `fold`, the specification, and what follows from it. Pure."""
