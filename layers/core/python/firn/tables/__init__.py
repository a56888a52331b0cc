"""What a table is and will be: its state, columns, routing. Pure, but for reading the log."""
