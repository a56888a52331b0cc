"""The documentation site: its sources put together, generated pages beside them, built and checked (`make docs`)."""
