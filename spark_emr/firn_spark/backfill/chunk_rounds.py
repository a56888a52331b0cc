"""All chunks of a backfill over the executors, a few of them at once."""

import pickle
from collections.abc import Iterator, Sequence

from pyspark import SparkContext

from firn.errors import FirnError, TerminalError, TransientError
from firn.log.store import open_store
from firn_spark.backfill.chunk_reader import Work
from firn_spark.backfill.chunk_task import Cancelled, ChunkTask


def stage_all(context: SparkContext, staging: str, work: Work, *, last: bool = False) -> int:
    """Stages what of the plan is not staged yet, of the chunks that are `last` or of those that are not. -> how many
    chunks it was.

    Raises Cancelled, TerminalError, TransientError: the chunks that were staged by then stay.
    """
    chunks = [n for n, chunk in enumerate(work.plan.chunks) if chunk.last == last]
    if not chunks:
        return 0
    at_once = max(1, min(len(chunks), work.request.parallel or context.defaultParallelism))
    packed = pickle.dumps(work)

    def run(mine: Iterator[Sequence[int]]) -> Iterator[tuple[int, str, str]]:
        for part in mine:
            yield _run(staging, packed, part)

    # Chunk after chunk to each: neighbours are read at the same time, and lie side by side in the source's cache.
    parts = [chunks[first::at_once] for first in range(at_once)]
    found = context.parallelize(parts, at_once).mapPartitions(run).collect()
    failures = [(kind, text) for _, kind, text in found if kind]
    if any(kind == "cancelled" for kind, _ in failures):
        raise Cancelled
    for kind, text in sorted(failures, reverse=True):
        raise TerminalError(text) if kind == "terminal" else TransientError(text)
    return sum(count for count, _, _ in found)


def _run(staging: str, packed: bytes, chunks: Sequence[int]) -> tuple[int, str, str]:
    """-> how many chunks were staged, and why no more: its kind, and the text. What is raised here would come to the
    job as a trace of Python and Java."""
    try:
        work: Work = pickle.loads(packed)  # noqa: S301 (the job wrote it)
        return ChunkTask(open_store(staging), work).run(chunks), "", ""
    except Cancelled:
        return 0, "cancelled", ""
    except TerminalError as error:
        return 0, "terminal", str(error)
    except FirnError as error:
        return 0, "transient", str(error)
