"""Cold files: which they are, and the tags and lifecycle rules that move them."""
