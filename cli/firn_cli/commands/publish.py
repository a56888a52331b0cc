"""`firn publish`: check firn.yaml and make it what a deployment or a stack works by."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firn.deployment.target import find_stack
from firn.deployment.terminal import say
from firn_cli.options import DEFAULT_DIR, Dir

if TYPE_CHECKING:
    from firn.config.model import Config
    from firn.config.reach import Reach
    from firn.log.store import Store


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration.")] = Path("firn.yaml"),
    check: Annotated[bool, typer.Option("--check", help="Say what would change, and change nothing.")] = False,
    config: Annotated[Path | None, typer.Option(help="FILE, by the name that `up` and `doctor` have for it.")] = None,
    folder: Dir = DEFAULT_DIR,
) -> None:
    """Check firn.yaml and publish it. It returns when every function works by it; a wrong file changes nothing."""
    stack = find_stack(folder, running=False)
    say(publish(stack.store(), config or file, stack.reach, check=check))


def publish(store: "Store", file: Path, reach: "Reach | None", *, check: bool = False) -> str:
    """Publishes `file`, unless it is the current configuration or `check` is set. -> what was done, for people.

    `reach`: what the jobs that will work by it can reach, None for everything. Raises ConfigError (the file can't be
    read, is wrong or out of reach; nothing is stored then), StorageUnavailable, UnknownOutcome.
    """
    from firn.config.reader import parse
    from firn.config.schema_changes import check_schemas
    from firn.config.writers import open_by_queue
    from firn.deployment.config_text import config_text
    from firn.log import published_configs
    from firn_sql.configured import check_sql

    text = config_text(file)
    new = parse(text, str(file))
    check_sql(new, str(file))
    old = published_configs.find(store)  # none yet, or one that an older Firn took: the new one is what matters
    if reach is not None:
        reach.check(new)
    if old is not None:
        check_schemas(old, new, str(file))
    is_there = old is not None and old.sha == new.sha
    if not check:
        if not is_there:
            published_configs.publish(store, text, str(file))
        published_configs.wait_until_taken_up()  # also of what was published a moment ago: by `firn up`, or in vain
    if is_there:
        return f"{file} is the current configuration already ({new.sha[:12]})"
    open_ones = [f"  {line}" for line in open_by_queue(new)]
    lines = [f"{'would publish' if check else 'published'} {file} as {new.sha[:12]}", *_changes(old, new), *open_ones]
    return "\n".join(lines)


def _changes(old: "Config | None", new: "Config") -> list[str]:
    """A line for each stream that is new, gone or another one now."""
    before = old.streams if old is not None else {}
    lines = [f"  {name}: new" for name in new.streams if name not in before]
    lines += [f"  {name}: changed" for name, one in new.streams.items() if before.get(name, one) != one]
    lines += [
        f"  {name}: gone; what is staged of it waits until it is back" for name in before if name not in new.streams
    ]
    return lines or ["  no stream changes"]
