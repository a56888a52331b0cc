"""Row images -> typed rows: schemas, types, values. Pure."""
