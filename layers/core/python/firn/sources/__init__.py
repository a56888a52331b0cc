"""Databases that Firn reads by itself: what it takes from them, and how far it has come."""
