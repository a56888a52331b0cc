"""Rows of file sinks: staged changes decoded, through their SQL, into the bodies of files."""
