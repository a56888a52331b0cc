"""Many changes of a mirror table to one snapshot: folded, looked up, decided, remembered, written."""
