"""The commit job: a range of epochs into tables, one snapshot a table, then the cut."""
