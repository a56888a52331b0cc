"""Views: when they are due, what they are to be of, and a job's turn at them."""
