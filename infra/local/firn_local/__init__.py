"""The embedded stack: AWS endpoints, EMR Serverless and a function host, on loopback only.

`firn_local.up(Options(...))` runs it in the foreground; `Stack` is the same for tests. Both load on first use, because
each function's process imports this package too.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firn_local.foreground import up as up
    from firn_local.stack import Options as Options
    from firn_local.stack import Stack as Stack

__all__ = ["Options", "Stack", "up"]


def __getattr__(name: str) -> Any:
    """Load the stack's parts when they are asked for. Raises firn.extras.MissingExtra where they are not installed."""
    if name in __all__:
        import importlib

        try:
            return getattr(importlib.import_module(f"firn_local.{'foreground' if name == 'up' else 'stack'}"), name)
        except ModuleNotFoundError as error:
            from firn.extras import missing

            raise missing(error) or error from error
    raise AttributeError(f"module 'firn_local' has no attribute {name!r}")
