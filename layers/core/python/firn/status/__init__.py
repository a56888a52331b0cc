"""How a stack is: its streams, sources and dead letters, for the terminal and the console alike."""
