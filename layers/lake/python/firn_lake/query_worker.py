"""The process that answers questions about tables: `python -m firn_lake.query_worker QUESTIONS ANSWERS` (two pipes).

It is one that may be killed at any moment: whoever started it watches what it takes (`query_process`). It writes
nothing anywhere but to its pipe: what DuckDB or a crash would print may hold what was asked.
"""

import gc
import os
import resource
import select
import sys
import threading
import traceback
from contextlib import suppress

import msgspec

from firn_lake.query_protocol import (
    DONE,
    HEAD,
    PART,
    READY,
    REFUSAL,
    Done,
    Head,
    Question,
    Refusal,
    in_parts,
    receive,
    send,
)
from firn_lake.sql.engine import unpack


def main(questions: int, answers: int) -> None:
    """Answer one question after the other, until the pipe of questions ends."""
    _give_way(questions)
    gc.disable()  # what is imported is never garbage: looking for some takes a tenth of the start
    try:
        unpack()  # first of all: what follows needs DuckDB and PyArrow
        from firn_lake import http_api
    except BaseException as error:  # noqa: BLE001 - nothing was asked yet: whatever it is may be told in full
        text = "".join(traceback.format_exception(error))
        send(answers, REFUSAL, msgspec.json.encode(Refusal(500, "internal", text, kind=type(error).__name__)))
        return
    gc.freeze()
    gc.enable()
    send(answers, READY, b"")
    while (frame := receive(questions)) is not None:
        question = msgspec.json.decode(frame[1], type=Question)
        try:
            answer = http_api.answer(question)
            send(answers, HEAD, msgspec.json.encode(Head(answer.format, answer.content_type)))
            for part in answer.parts:
                for piece in in_parts(part):
                    send(answers, PART, bytes(piece))
            send(answers, DONE, msgspec.json.encode(Done(answer.rows)))
        except BrokenPipeError:
            return
        except BaseException as error:  # noqa: BLE001 - each has its status; what none is known for is `internal`
            send(answers, REFUSAL, msgspec.json.encode(http_api.as_refusal(error)))


def _give_way(questions: int) -> None:
    """Be the first to go when memory ends, leave no core, and end with whoever asks."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with, args=(questions,), daemon=True).start()


def _end_with(questions: int) -> None:
    closed = select.poll()
    closed.register(questions, 0)  # POLLHUP alone
    closed.poll()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
