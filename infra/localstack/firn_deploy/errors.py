"""What can go wrong."""

from firn.errors import FirnError


class DeployError(FirnError):
    """The deployment can't be made, or not be removed. The text says what to do."""
