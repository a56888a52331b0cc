"""Rows of a table as it was at one moment: which files hold them, and their rows in bounded memory."""
