"""Request signatures, keys, masking and redaction (its own issue; empty until then)."""
