"""Envelopes: a request's body -> changes as columns. A module for each envelope."""
