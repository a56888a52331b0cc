"""The audit: everything that was acknowledged is accounted for."""
