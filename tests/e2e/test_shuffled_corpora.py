"""Whole corpora shuffled, doubled, split anyhow over HTTP and SQS at once, with a SIGKILL of the job in each run: the
tables of the ordered run, and `firn audit` balances.

CI runs under one seed the corpus that has the least to go by. `make soak` runs all
five under ten seeds, and compares also with the ordered run, by column name; a red one is replayed with the FIRN_SEED
that its name tells. What can't be equal is in tests/e2e/test_corpus_over_http.py (KNOWN, IMPOSSIBLE) and in
shuffling.NO_TIME.
"""

import random
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from firn_demo.comparing import compare
from tests.e2e import test_corpus_over_http as ordered_corpora
from tests.e2e.conftest import Stack
from tests.e2e.killing import audited, dispatch, kill_job
from tests.e2e.shuffling import KEYLESS, NO_TIME, PGBENCH, Request, corpus, deliver, keyless_rows, shuffled
from tests.gate import made_in
from tests.soak import LONG, long_only, seeds

pytestmark = pytest.mark.spark
PACKAGED = True

SPEC = ordered_corpora.ENCODINGS
CORPORA = [*SPEC, "pgbench"] if LONG else ["flat"]
RUNS = [(name, seed) for seed in seeds(1, 10) for name in CORPORA]
BANK = {
    "accounts": "pgbench_accounts.csv.gz",
    "tellers": "pgbench_tellers.csv",
    "branches": "pgbench_branches.csv",
    "history": "pgbench_history.csv.gz",
    "sentinel": "sentinel.csv",
}


def stream(name: str, corpus_name: str) -> str:
    """The stream's part of firn.yaml: its tables are in the namespace of its name, and its jobs are killed alone."""
    apart = f"  {name}:\n    job: {name}\n    commit: {{linger: 0s}}\n"
    return _tables(name, corpus_name).replace(f"  {name}:\n", apart, 1)


def _tables(name: str, corpus_name: str) -> str:
    if corpus_name in SPEC:
        return ordered_corpora.stream(name, SPEC[corpus_name])
    return f"""  {name}:
    envelope: debezium
    tables:
      public.pgbench_accounts: {{to: {name}.accounts, key: [aid], columns: {{filler: string}}}}
      public.pgbench_tellers: {{to: {name}.tellers, key: [tid], columns: {{filler: string}}}}
      public.pgbench_branches: {{to: {name}.branches, key: [bid], columns: {{filler: string}}}}
      public.pgbench_history: {{to: {name}.history, mode: append, columns: {{mtime: timestamp, filler: string}}}}
      public.sentinel: {{to: {name}.sentinel, key: [id]}}
"""


def name_of(corpus_name: str, seed: int) -> str:
    return f"{corpus_name}_{seed}"


ORDERED = [(name, f"{name}_ordered") for name in CORPORA] if LONG else []
CONFIG = "streams:\n" + "".join(
    stream(name, about) for about, name in [*((about, name_of(about, seed)) for about, seed in RUNS), *ORDERED]
)


@pytest.fixture(scope="module")
def landed(request: pytest.FixtureRequest, stack: Stack) -> Mapping[str, str]:
    """The chosen runs, two at a time. -> stream to the moment of its kill, or to what went wrong."""
    chosen = [
        (item.callspec.params["about"], item.callspec.params["seed"])
        for item in made_in(request.path, request.session)
        if isinstance(item, pytest.Function)
    ]
    for about, name in ORDERED:
        if about not in {wanted for wanted, _ in chosen}:
            continue
        events = [event.line for event in corpus(about)]
        deliver(stack, name, [Request(False, events[n : n + 2_000]) for n in range(0, len(events), 2_000)])
        stack.flush(name)

    def run(one: tuple[str, int]) -> tuple[str, str]:
        about, seed = one
        try:
            return name_of(*one), shuffle(stack, about, name_of(*one), seed)
        except Exception as error:  # noqa: BLE001 (told by the test of this run)
            return name_of(*one), f"failed: {error!r}"

    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(run, chosen))


def shuffle(stack: Stack, about: str, name: str, seed: int) -> str:
    """Half of the corpus, a job over it that is killed, the rest, and a job over all of it. -> when it was killed."""
    dice = random.Random(f"{about} {seed}")
    requests = shuffled(corpus(about), dice, largest=400 if about in SPEC else 4_000)
    # Half of what goes each way: the queue's half may still be on its way when the epoch is sealed.
    half = len(requests) // 2
    deliver(stack, name, requests[:half])
    said = dispatch(stack, name)
    assert said["run"], said
    moment = kill_job(stack, said["run"], dice, tables=len(BANK) if about == "pgbench" else 12)
    deliver(stack, name, requests[half:])
    stack.flush(name)
    return moment


def content(stack: Stack, namespace: str, table: str) -> Counter[str]:
    """Rows by column name, without what tells of the delivery; a null is as good as no column."""
    own = {"_firn_held", "_firn_id"}
    rows = [
        {k: v for k, v in row.items() if k not in own and v is not None}
        for row in stack.read(namespace, table).to_pylist()
    ]
    return Counter(repr(sorted(row.items())) for row in rows)


@long_only
@pytest.mark.parametrize(("about", "seed"), RUNS)
def test_a_shuffled_corpus_with_a_killed_job_gives_the_final_tables(
    stack: Stack, landed: Mapping[str, str], about: str, seed: int
) -> None:
    name = name_of(about, seed)
    print(f"FIRN_SEED={seed} {about}: killed {landed[name]}")
    assert not landed[name].startswith("failed"), landed[name]
    audited(stack, name)
    wrong: dict[str, Any] = {}
    if about == "pgbench":
        for table, final in BANK.items():
            found = compare(table, stack.read(name, table), PGBENCH / "final" / final)
            wrong |= {} if found.ok else {table: found.line()}
        assert wrong == {}
    else:
        for table in sorted(ordered_corpora.KEYS):
            lines = differences(stack, name, about, table)
            wrong |= {table: sorted(lines)} if lines else {}
        assert wrong == ordered_corpora.KNOWN[about]
        for table in KEYLESS:
            assert Counter(stack.read(name, table)["_firn_op"].to_pylist()) == keyless_rows(about, table), table
    if LONG:
        unequal = {}
        for table in BANK if about == "pgbench" else ordered_corpora.COMPARED:
            if table in KEYLESS and about in NO_TIME:
                continue  # the ordered run has identical events in one request, which this run must not have
            one, other = content(stack, f"{about}_ordered", table), content(stack, name, table)
            if one != other:
                unequal[table] = [*(one - other)][:3], [*(other - one)][:3]
        assert unequal == {}


def differences(stack: Stack, namespace: str, encoding: str, table: str) -> list[str]:
    """As in the ordered test, of another stream's tables."""
    return ordered_corpora.differences(stack, encoding, table, namespace)
