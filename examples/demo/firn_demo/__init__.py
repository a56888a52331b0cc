"""The demo: real change events in, Iceberg tables out, compared with the source. `make demo` runs it."""
