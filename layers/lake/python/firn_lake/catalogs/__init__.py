"""Opening the catalog that the commit job writes to, with bounded waits."""
