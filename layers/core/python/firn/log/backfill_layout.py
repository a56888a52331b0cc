"""Where the objects of backfills lie (firn/backfill): made and read here and nowhere else. Pure.

backfills/{stream}/{backfill}/{request, plan, end}.json
backfills/{stream}/{backfill}/chunks/{n:06d}-{link:03d}.json
"""


def backfills_prefix(stream: str) -> str:
    """Below which lie the backfills of `stream`."""
    return f"backfills/{stream}"


def backfill_path(stream: str, backfill: str, name: str) -> str:
    """An object of a backfill: its `request`, its `plan`, or how it came to its `end`. Its id is letters and digits."""
    if not backfill.isalnum():
        raise ValueError(f"{backfill!r} can't name a backfill: letters and digits only")
    return f"{backfills_prefix(stream)}/{backfill}/{name}.json"


def backfill_of(path: str) -> tuple[str, str] | None:
    """(backfill, name) of such a path; None for any other object."""
    parts = path.removesuffix(".json").split("/")
    return (parts[2], parts[3]) if len(parts) == 4 and parts[0] == "backfills" else None


def chunks_prefix(stream: str, backfill: str) -> str:
    """Below which lie the claims of a backfill's chunks."""
    return f"{backfills_prefix(stream)}/{backfill}/chunks"


def chunk_path(stream: str, backfill: str, chunk: int, link: int) -> str:
    """A claim of a chunk. `link`: from 1; a later one is the successor of one whose batch was never written."""
    return f"{chunks_prefix(stream, backfill)}/{chunk:06d}-{link:03d}.json"


def chunk_of(path: str) -> tuple[int, int] | None:
    """(chunk, link) of a claim's path; None for any other object."""
    chunk, _, link = path.rpartition("/")[2].removesuffix(".json").partition("-")
    known = chunk.isascii() and chunk.isdigit() and link.isascii() and link.isdigit()
    return (int(chunk), int(link)) if known else None
