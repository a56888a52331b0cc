"""What the shell completes: tables, streams and kept cuts of the stack in --dir (`firn --install-completion`).

Completion is silent where it finds nothing: a message would stand in the middle of a command line.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from firn.deployment.stack import Stack


def tables(context: typer.Context, incomplete: str) -> list[str]:
    """Tables that begin so."""

    def found(stack: Stack) -> Iterable[str]:
        from firn_lake.catalogs.stack_catalog import catalog_of
        from firn_lake.sharded.whole_names import WholeNames
        from firn_lake.tables import identifier_text, table_identifiers

        there = table_identifiers(catalog_of(stack))
        return map(identifier_text, [*there, *WholeNames(stack.store).among(there)])

    return _beginning(context, incomplete, found)


def streams(context: typer.Context, incomplete: str) -> list[str]:
    """Streams that begin so."""

    def found(stack: Stack) -> Iterable[str]:
        from firn.log import published_configs

        return published_configs.current(stack.store()).streams

    return _beginning(context, incomplete, found)


def cuts(context: typer.Context, incomplete: str) -> list[str]:
    """Names of kept cuts that begin so."""

    def found(stack: Stack) -> Iterable[str]:
        from firn.log.named_cuts import all_kept

        return (one.name for one in all_kept(stack.store()))

    return _beginning(context, incomplete, found)


def alerts(context: typer.Context, incomplete: str) -> list[str]:
    """Targets and rules of alerts that begin so."""

    def found(stack: Stack) -> Iterable[str]:
        from firn.log import published_configs

        known = published_configs.current(stack.store()).alerts
        return () if known is None else (*known.targets, *known.rules)

    return _beginning(context, incomplete, found)


def _beginning(context: typer.Context, incomplete: str, names: Callable[[Stack], Iterable[str]]) -> list[str]:
    from firn.deployment.target import find_stack
    from firn.errors import FirnError

    if context.find_root().params.get("target") is not None:
        return []  # a deployment is not asked at each press of a key
    try:
        stack = find_stack(Path(context.params.get("folder") or ".firn"), running=False)
        return sorted(name for name in names(stack) if name.startswith(incomplete))
    except (FirnError, OSError):
        return []
