"""Sealing epochs and starting the jobs that commit them."""
