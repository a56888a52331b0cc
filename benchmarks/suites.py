"""The suites that commit: what they run, and what must hold. Sizes are those of a full run."""

import json
import re
from collections.abc import Callable
from math import nan
from statistics import median
from typing import Any

from benchmarks import workload
from benchmarks.bench import CACHE, Bench
from benchmarks.results import Case, Plot
from benchmarks.workload import Keys
from firn.deployment.line_plot import short

SPARK = ("firn", "merge-on-read", "copy-on-write")


def into(events: int, rows: int) -> str:
    """The name of a group: 100K events into 10M rows."""
    return f"{short(events)} events into {short(rows)} rows"


def ratio(one: Case, other: Case, of: str = "seconds") -> float:
    """One's median by the other's."""
    return one.median(of) / other.median(of) if other.runs and one.runs else float("nan")


def commit(bench: Bench) -> None:
    """Events that lie in storage into one snapshot of a table: Firn, others, floors."""
    rows, events = 1_000_000, 200_000
    group, data = into(events, rows), bench.data(rows, events)
    for who in (*SPARK, "fold"):
        bench.warm(group, who, data)
    for who in ("pyiceberg", "delta-rs", "duckdb"):
        bench.peer(group, who, data)
    few = bench.data(rows, 4_000)
    bench.peer(into(4_000, rows), "dlt", few, note="takes minutes with more events")

    rows = 10_000_000
    for events, whose in ((100_000, SPARK), (1_000_000, SPARK[:2])):
        group, data = into(events, rows), bench.data(rows, events)
        cases = {who: bench.warm(group, who, data) for who in (*whose, "fold")}
        bench.peer(group, "duckdb", data)
        if events == 100_000:
            clock, cpu = 0.12, 0.09
            bench.must(f"{group}: Firn by copy-on-write MERGE", ratio(cases["firn"], cases["copy-on-write"]), 0.12)
        else:
            clock, cpu = 0.27, 0.3
            bench.must(f"{group}: Firn by the fold alone", ratio(cases["firn"], cases["fold"]), 2.5)
        merge = cases["merge-on-read"]
        bench.must(f"{group}: Firn by merge-on-read MERGE", ratio(cases["firn"], merge), clock)
        bench.must(f"{group}: Firn by merge-on-read MERGE, CPU", ratio(cases["firn"], merge, "cpu"), cpu)


def toasted(bench: Bench) -> None:
    """Ranges of which a part is not plain: of so many in a hundred updates the longest value did not come with them."""
    rows, events = 1_000_000, 100_000
    found = {
        share: bench.warm(
            into(events, rows), "firn", bench.data(rows, events, toasted=share), label=f"firn, {share} %", check=False
        )
        for share in (0, 1, 10)
    }
    for share, bound in ((1, 1.3), (10, 2.5)):
        text = f"{into(events, rows)}: {share} % not plain by all plain"
        bench.must(text, ratio(found[share], found[0]), bound)


def partitioned(bench: Bench) -> None:
    """The same events into a table that is partitioned by its key, or by time, and into one that is not."""
    rows, events = 1_000_000, 200_000
    group, data = into(events, rows), bench.data(rows, events)
    plain = bench.warm(group, "firn", data)
    for how in ("bucket(16, id)", "day(updated_at)"):
        case = bench.warm(group, "firn", data, "--partition", how, label=f"firn, {how}")
        bench.must(f"{group}: CPU with {how}, by that without", ratio(case, plain, "cpu"), 1.3)


def growth(bench: Bench) -> None:
    """The same number of events into ever larger tables, and ever more events into the same table."""
    events = 100_000
    sizes = (1_000_000, 10_000_000, 50_000_000)
    found: dict[tuple[str, int], Case] = {}
    for rows in sizes:
        for keys in ("mixed", "recent", "clustered"):
            found[keys, rows] = _keyed(bench, events, rows, keys)
        found["MERGE", rows] = bench.warm(f"{into(events, rows)}, mixed", "merge-on-read", bench.data(rows, events))
    most = {"mixed": 1.6, "recent": 1.2, "clustered": 1.2}
    for keys, bound in most.items():
        text = f"{short(events)} events, {keys} keys: into {short(sizes[-1])} rows by into {short(sizes[0])} rows"
        bench.must(text, ratio(found[keys, sizes[-1]], found[keys, sizes[0]]), bound)
    lines = {
        f"{'Firn, ' if name != 'MERGE' else ''}{name}{' keys' if name != 'MERGE' else ', mixed keys'}": [
            (float(rows), found[name, rows].median()) for rows in sizes
        ]
        for name in (*most, "MERGE")
    }
    bench.suite.plots.append(
        Plot("growth-rows", f"{short(events)} events into a table of so many rows", "rows", "seconds", lines, "x")
    )
    _by_batch(bench)


def _keyed(bench: Bench, events: int, rows: int, keys: Keys) -> Case:
    return bench.warm(f"{into(events, rows)}, {keys}", "firn", bench.data(rows, events, keys))


def _by_batch(bench: Bench) -> None:
    rows, counts = 10_000_000, (1_000, 10_000, 100_000, 1_000_000)
    lines: dict[str, list[tuple[float, float]]] = {"firn": [], "merge-on-read": []}
    for count in counts:
        for who, line in lines.items():
            case = bench.warm(into(count, rows), who, bench.data(rows, count))
            line.append((float(count), case.median()))
    bench.suite.plots.append(
        Plot("growth-events", f"So many events into {short(rows)} rows", "events", "seconds", lines, "xy")
    )


def small(bench: Bench) -> None:
    """Fifty commits of a thousand events, one after the other, small files merged in between as the job does it."""
    commits = 10 if bench.quick else 50
    rows, events = 10_000_000, 1_000 * commits
    data = bench.data(rows, events if not bench.quick else events * 100, files=commits)
    group = f"{commits} x 1K events into {short(rows)} rows"
    lines = {}
    for who in ("firn", "merge-on-read"):
        case = bench.warm(group, who, data, "--epochs", commits)
        series = [run["parts"] for run in case.runs]
        typical = [median(at) for at in zip(*series, strict=True)]
        lines[who] = [(float(n), seconds) for n, seconds in enumerate(typical, start=1)]
        if who == "firn":
            # Five commits around the fifth, and the last five: a single one says more about the machine.
            early, late = typical[2:7], typical[-5:]
            text = f"{group}: the last five by the third to the seventh"
            bench.must(text, median(late) / median(early) if typical else float("nan"), 1.3)
    bench.suite.plots.append(Plot("small-commits", group, "commit", "seconds", lines))


def care(bench: Bench) -> None:
    """Five hundred commits of two hundred events, with the care of a deployment and without any."""
    commits = 40 if bench.quick else 500
    rows, events = 1_000_000, 200 * commits
    data = bench.data(rows, events if not bench.quick else events * 100, files=commits)
    group = f"{commits} x 200 events into {short(rows)} rows"
    cases = {who: bench.aged(group, who, data, commits) for who in ("care", "none")}
    whose = {"care": "with care", "none": "without"}
    for of, title, y in (
        ("scan", "A full scan after so many commits", "seconds"),
        ("total-data-files", "Data files after so many commits", "files"),
        ("total-delete-files", "Delete files after so many commits", "files"),
        ("metadata", "The table's metadata after so many commits", "bytes"),
    ):
        lines = {
            whose[who]: [
                (float(look["commits"]), float(look[of])) for look in case.runs[-1]["looks"] if look["commits"]
            ]
            for who, case in cases.items()
            if case.runs
        }
        bench.suite.plots.append(Plot(f"care-{of}", title, "commits", y, lines))
    case = cases["care"]
    bench.must(f"{group}, with care: a full scan afterwards by that of a freshly written table", _worn(case), 1.3)
    looks = [look for run in case.runs for look in run["looks"][1:]]
    third = len(looks) // 3
    early, late = (median(look["scan"] for look in some) if some else nan for some in (looks[:third], looks[-third:]))
    bench.must(f"{group}, with care: scans, the last third by the first", late / early, 1.3)
    most = max((look["total-data-files"] + look["total-delete-files"] for look in looks), default=nan)
    bench.must(f"{group}, with care: data and delete files at most", most, 100)


def _worn(case: Case) -> float:
    return case.median("worn") / case.median("fresh")


def cold(bench: Bench) -> None:
    """A job as a job is: a process of its own with the default memory of 1 GB, that starts Spark and commits once."""
    rows, events = 1_000_000, 200_000
    group, data = f"{into(events, rows)}, cold", bench.data(rows, events)
    firn = bench.cold(group, "firn", data)
    floor = bench.peer(group, "duckdb", data)
    bench.must(f"{group}: beyond Spark's start, by the DuckDB floor", ratio(firn, floor), 2.5)
    rows = 10_000_000
    for events in (1_000_000, 10_000_000):
        group, data = f"{into(events, rows)}, cold", bench.data(rows, events)
        case = bench.cold(group, "firn", data, None if events == 1_000_000 else 1)
        bench.must(f"{group}: peak memory of all processes", case.median("peak") / 1_000, 2.5, " GB")
        if events == 1_000_000:
            sliced = bench.cold(group, "firn", data, slices=True)
            bench.must(f"{group}: CPU by slices, by that of one process", ratio(sliced, case, "cpu"), 1.5)
        else:
            bench.must(f"{group}: runs that did not finish, or were wrong", float(not (case.runs and case.right)), 0)
            bench.must(f"{group}: seconds", case.median(), 120, " s")
            bench.must(f"{group}: CPU", case.median("cpu"), 200, " s")


def tables(bench: Bench) -> None:
    """One epoch that changes 200 tables, in one job that also starts Spark: 20 changes each, and then skewed."""
    tables = 20 if bench.quick else 200
    skewed = [max(1, 20_000 // (2 * n)) for n in range(1, tables + 1)]
    for group, changes in ((f"{tables} tables, 20 changes each", [20] * tables), (f"{tables} tables, skewed", skewed)):
        events = workload.many_tables(CACHE / "data", tables, changes)
        firn = bench.many(group, "firn", events, tables)
        bench.many(group, "merge-on-read", events, tables)
        if changes[0] == 20:
            bench.must(f"{group}: the job", firn.median(), 60, " s")
            bench.must(f"{group}: snapshots a table", firn.median("snapshots") / tables, 1)


def send(bench: Bench) -> None:
    """As a user does it: `firn send` of a file to a stack that has just started, then `firn flush`; a new table."""
    for group, count, columns, size, partition, least in (
        ("1M events of 12 columns", 1_000_000, 12, 0, "", 50_000),
        ("500K events of 12 columns, bucket(16, id)", 500_000, 12, 0, "bucket(16, id)", 40_000),
        ("200K events of 40 columns, 900 bytes", 200_000, 40, 900, "", 25_000),
    ):
        case = bench.sent(group, count, columns, size, partition)
        case.note = f"{case.events / case.median():,.0f} events/s"
        bench.must(f"{group}: microseconds an event, send and flush", case.median() / case.events * 1e6, 1e6 / least)
        bench.must(f"{group}: tables that are wrong", 0 if case.right else 1, 0)


def freshness(bench: Bench) -> None:
    """A steady load on the embedded stack: from the 202 to a snapshot that holds the event."""
    seconds = 30 if bench.quick else 180
    for rate in (200, 2_000, 10_000):
        group = f"{short(rate)} events/s for {seconds} s"
        case = bench.steady(group, rate, seconds)
        case.note = (
            f"p50 {case.median('p50'):.1f} s, p99 {case.median('p99'):.1f} s, {case.median('said_429'):.0f} times 429"
        )
        if rate == 2_000:
            bench.must(f"{group}: p50 from accepted to queryable", case.median("p50"), 5, " s")
            bench.must(f"{group}: p99", case.median("p99"), 10, " s")
            bench.must(f"{group}: answers that are neither 202 nor 429", case.median("failed"), 0)
            bench.must(f"{group}: backlog, its last third by its second", case.median("slope"), 1.25)
        if rate == 10_000:
            bench.must(f"{group}: p99 from accepted to queryable", case.median("p99"), 6, " s")
            bench.must(f"{group}: answers 429", case.median("said_429"), 0)
        bench.must(f"{group}: events accepted and lost, or wrong", _lost(case), 0)
        lines = {group: [(float(at), float(n)) for at, n in enumerate(case.runs[-1]["backlog"] if case.runs else ())]}
        bench.suite.plots.append(Plot(f"backlog-{rate}", "Accepted and not queryable", "seconds", "events", lines))


def _lost(case: Case) -> float:
    return case.median("lost") + case.median("failed") + (0 if case.right else 1)


def ingest(bench: Bench) -> None:
    """What a request costs ingest: a 1 MB body to staged bytes on one core, by a bare decode and zstd-1 of it."""
    said = bench.say("ingest", "--best", "--runs", 20 if bench.quick else 200)
    found = re.search(r"ratio ([0-9.]+) \(target <= ([0-9.]+)\)", said)
    bench.suite.text = said
    bench.must("CPU of a request by the floor", float(found[1]) if found else float("nan"), 1.6)


def decode(bench: Bench) -> None:
    """What the commit job's Python costs: from staged bytes to typed rows on one core, without Spark."""
    bench.suite.text = bench.say("decode", *(("--events", 10_000, "--runs", 2) if bench.quick else ("--memory",)))


def read(bench: Bench) -> None:
    """What the lake's Python side costs beside bare pyarrow and bare PyIceberg, over the same files, in turn."""
    sizes = ("--rows", 200_000, "--partitions", 200, "--runs", 2) if bench.quick else ("--runs", 2 * bench.runs + 1)
    said = bench.say("read", *sizes).rstrip()
    bench.suite.text, _, last = said.rpartition("\n")
    found: dict[str, Any] = json.loads(last) if last.startswith("{") else {"rows": nan, "pairs": {}}

    def told(pair: str, of: str) -> float:
        return float(found["pairs"].get(pair, {}).get(of, nan))

    bench.must("batches: seconds a million rows", told("batches", "wall") / found["rows"] * 1_000, 1, " s")
    bench.must("batches: CPU by bare pyarrow", told("batches", "by cpu"), 1.5)
    bench.must("all as Arrow: seconds by bare pyarrow", told("arrow", "by wall"), 1.5)
    bench.must("a row at an earlier snapshot: CPU by a row now", told("earlier", "by cpu"), 1.1)
    bench.must("connect and open a table", told("open", "wall"), 100, " ms")
    bench.must("prune 2,000 partitions, warm", told("prune", "wall"), 50, " ms")
    bench.must("prune 2,000 partitions, warm: CPU by bare plan_files", told("prune", "by cpu"), 1)
    bench.must("look up a random key: CPU by one without Bloom filters", told("look-up", "by cpu"), 0.5)


def newest(bench: Bench) -> None:
    """How soon a row is in a fresh read once its POST was answered, beside 5,000 changes that wait for their commit."""
    looks = 20 if bench.quick else 200
    for requests in (100, 1_000):
        work = CACHE / "newest"
        said = bench.say("newest", "--requests", requests, "--looks", looks, "--work", work).strip()
        found: dict[str, Any] = json.loads(said) if said.startswith("{") else {}
        bench.suite.text += said + "\n"
        bench.must(
            f"5,000 changes of {requests} requests wait: p99 of a look-up by key",
            float(found.get("fresh", {}).get("p99", nan)), 300, " ms",
        )  # fmt: skip


def audit(bench: Bench) -> None:
    """What `firn audit` costs an event, and by what the full rule alone would cost."""
    count, runs = (20_000, 1) if bench.quick else (200_000, bench.runs)
    said = bench.say("audit", "--events", count, "--runs", runs, "--work", CACHE / "audit").strip()
    found: dict[str, float] = json.loads(said.rpartition("\n")[2]) if said.endswith("}") else {}
    bench.suite.text = said + "\n"
    for name, text in (("rows", "each row looked for"), ("deep", "all values compared")):
        bench.must(f"{text}: CPU microseconds an event", found.get(name, nan) / count * 1e6, 25, " µs")
        full = found.get("full" if name == "rows" else "full_deep", nan)
        bench.must(f"{text}: CPU by that of the full rule alone", found.get(name, nan) / full, 0.25)


SUITES: dict[str, Callable[[Bench], None]] = {
    suite.__name__: suite
    for suite in (
        ingest,
        decode,
        commit,
        toasted,
        partitioned,
        growth,
        small,
        care,
        tables,
        cold,
        send,
        freshness,
        read,
        newest,
        audit,
    )
}
