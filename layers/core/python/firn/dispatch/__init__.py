"""Dispatch: seals epochs and sees to it that a job commits them."""
