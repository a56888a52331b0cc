"""From a request or a queue message to one staged batch."""
