"""firn.yaml as types, with errors that name the line. No I/O."""
