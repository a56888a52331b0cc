"""Views: queries over tables, brought to a cut by what changed in these."""
