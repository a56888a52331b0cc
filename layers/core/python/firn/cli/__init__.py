"""The firn command."""
