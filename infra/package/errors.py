"""What goes wrong when something is packaged."""


class PackageError(Exception):
    """It can't be packaged. The text says what to do."""
