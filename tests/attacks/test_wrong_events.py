"""Events of which something is wrong, by themselves: each is read as it is among others, and is taken, ignored or a
dead letter with its reason and its bytes."""

import random
from collections import Counter
from functools import partial
from typing import Final

import pytest

from firn.changes.envelopes.json_text import is_json_object, readable
from firn.changes.envelopes.limits import LIMITS
from firn.changes.envelopes.parser import _one_by_one, parse
from firn.changes.envelopes.registry import KNOWN
from firn.log.dead_letters.reasons import ADVICE
from tests.attacks.grammar import Grammar
from tests.attacks.held_events import held_in, or_refused
from tests.pure_mirror import decoded_of, read, stream
from tests.soak import few_cases, seeds, times

ENVELOPES: Final = KNOWN.names
_TABLES: Final = (*("one", "two", "log") * 9, "oddé", "odd a", "odd\0", "ODD")
HOLD_SEVERAL: Final = {"auto"} | {name for name, one in KNOWN.envelopes.items() if one.parts is not None}


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_an_event_is_the_same_whatever_comes_beside_it(envelope: str) -> None:
    counts = Counter[str]()
    for number in seeds(times(60, 30_000, 120), 30_000):
        dice = random.Random(number)
        grammar = Grammar(dice, envelope, _TABLES, wrong=dice.choice((0, 0.03, 0.3)), parts=True)
        events = [grammar.event() for _ in range(dice.choice((1, 3, 10)))]
        body = b"[" + b",".join(events) + b"]" if dice.random() < 0.5 else b"\n".join(events)
        text, array = readable(body, lines=False)
        found = or_refused(partial(parse, body, envelope))
        assert found == or_refused(partial(_one_by_one, text, envelope, LIMITS, array=array)), f"FIRN_SEED={number}"
        if isinstance(found, tuple):
            assert found[0] == 400
            counts["refused"] += len(events)
            continue
        if array and not all(one == b"null" or is_json_object(one) for one in events):
            continue  # where one event ends and the next begins nobody can tell
        counted = len(found) + len(found.rejected) + sum(found.ignored.values())
        assert counted == held_in(events, envelope), f"FIRN_SEED={number}"
        assert counted >= len(events)
        counts += Counter(accepted=len(found), rejected=len(found.rejected), ignored=sum(found.ignored.values()))
    print(envelope, dict(counts))
    assert min(counts["accepted"], counts["rejected"]) > 0
    assert (counts["ignored"] > 0) is not (KNOWN.bare(envelope) is not None)


# Debezium's connectors that are read in ways of their own, beside PostgreSQL's.
CONNECTORS: Final = ("mysql", "sqlserver", "oracle", "mongodb", "db2", "vitess", "spanner")


@few_cases(2)
@pytest.mark.parametrize(
    ("envelope", "connector"), [*((name, None) for name in ENVELOPES), *(("debezium", name) for name in CONNECTORS)]
)
def test_each_of_three_thousand_wrong_events_is_taken_ignored_or_a_dead_letter(
    envelope: str, connector: str | None
) -> None:
    """In one request or alone: read, placed and decoded, into a mirror and an append table."""
    counts = Counter[str]()
    for number in seeds(times(30, 3_000), 3_000):
        dice = random.Random(number)
        grammar = Grammar(dice, envelope, _TABLES, wrong=1, parts=True, connector=connector)
        events = [grammar.event() for _ in range(100)]
        for body in (b"\n".join(events), dice.choice(events)):
            found = or_refused(partial(read, body, stream(envelope), number))
            if isinstance(found, tuple):
                assert found[0] == 400, f"FIRN_SEED={number}"
                assert not is_json_object(body) or "which table" in found[1], f"FIRN_SEED={number}"
                counts["refused"] += 1
                continue
            good, bad = decoded_of(found, number, stream(envelope))
            assert not bad["internal"], f"FIRN_SEED={number}"
            assert ADVICE.keys() >= {*bad, *(one.code for one in found.rejected)}, f"FIRN_SEED={number}"
            for one in found.rejected:  # the part of an event that holds several, and what was read, are put together
                assert one.message, f"FIRN_SEED={number}"
                assert one.original in body or envelope in HOLD_SEVERAL or one.change, f"FIRN_SEED={number}"
            dead = len(found.rejected) + bad.total()
            counts += Counter(accepted=good, dead=dead, ignored=sum(found.ignored.values()))
    print(envelope, connector or "", dict(counts))
    assert min(counts["accepted"], counts["dead"]) > 0
