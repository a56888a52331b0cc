"""`make package`: what goes to AWS, measured against its budget and put together in build/package."""


class PackageError(Exception):
    """It can't be packaged. The text says what to do."""
