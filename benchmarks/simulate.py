"""What many tenants would take: a simulation of Firn's stages, from costs that were measured on one machine.

    python -m benchmarks.simulate [--tenants 10000] [--rate 100] [--skew 1.0] [--streams 1 10 100] [--lanes 1 2 4 8]
        [--shards tenant hash] [--every 2 600] [--minutes 60] [--body 4] [--request-ms 100] [--cores 2] [--seed 7]
        [--json] [--draw FILE.svg]
    python -m benchmarks.simulate --anchor docs/benchmarks/tenants.json

Tenants send `--rate` megabytes a second between them, the n-th of them in proportion to 1 / n^skew. A request of
`--body` megabytes is staged; a job looks every half second, seals what is old enough (`--every` seconds, `fresh` of
firn.yaml) and commits each table that it touches, those with the fewest changes first; the cut follows, then the care
of every sixteenth commit. Above a minute jobs do not stay: dispatch starts one. `--shards`: a table for each tenant, or
as many as a hash makes (`--hashed`). Several streams are what Firn does today, and so is a table a tenant, where the
source has it. Lanes are in no code yet, and shards of one table cost otherwise (ADR 104): both are marked "sim".
`--anchor` compares runs of benchmarks/tenants.py, a line each, with the same load here. Same arguments, same output.
What a step costs, and where that is from: benchmarks/scale_costs.py.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks import scale_costs as fixed
from benchmarks.aws_cost import PUTS_A_COMMIT
from benchmarks.scale_costs import AWS, HERE, LIMITS, Costs, Used, dollars, ingest_seconds
from benchmarks.scale_load import Ages, Load, anchored, zipf
from firn.usage.prices import PUTS_A_REQUEST

_ROUNDS: Final = 2 * fixed.CARE_EVERY  # of each job that a look at a load has at least


@dataclass(frozen=True)
class Setting:
    """How a load is taken. `every`: seconds that changes wait; `stays`: the job stays for what comes next; `listed`:
    seconds of staged objects that a look lists; `still`: tables that never change."""

    streams: int = 1
    lanes: int = 1
    every: float = 2.0
    body: float = 1e6
    listed: float = fixed.LISTED_SECONDS
    event_bytes: float = fixed.EVENT_BYTES
    still: int = 0

    @property
    def stays(self) -> bool:
        return self.every <= fixed.LINGER


@dataclass
class Found:
    """What became of it. `age`: until a change's table has it; `cut`: until the cut has it; CPU seconds of jobs."""

    age: Ages = field(default_factory=Ages)
    cut: Ages = field(default_factory=Ages)
    rounds: int = 0
    commits: int = 0
    most: int = 0  # commits of one table
    lists: int = 0
    starts: int = 0
    cpu: float = 0.0
    busy: float = 0.0
    longest: float = 0.0  # round
    slope: float = 0.0  # of the job that has most to do: Job.slope
    end: float = 0.0

    def take(self, other: "Found") -> None:
        """What another job did, too."""
        self.age.take(other.age)
        self.cut.take(other.cut)
        for name in ("rounds", "commits", "lists", "starts", "cpu", "busy"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("most", "longest", "slope", "end"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))


class Job:
    """The jobs of one lane of one stream, one after the other. `all_changes`: a second, of the whole stream."""

    def __init__(
        self, load: Load, tables: Sequence[int], costs: Costs, setting: Setting, share: tuple[float, float]
    ) -> None:
        """`share`: the stream's changes and requests a second, all lanes together."""
        self._load, self._tables, self._costs, self._setting = load, tables, costs, setting
        self._changes, self._requests = share
        self._staged_after = ingest_seconds(costs, setting.body)
        self._commits = [0] * len(tables)
        self._listed = -math.inf  # when all that may be late was looked for
        self.found = Found()

    def run(self) -> Found:
        """Until all that came in is committed."""
        load, setting, found = self._load, self._setting, self.found
        now = done = 0.0
        found.slope = self.slope
        counts = load.upto(self._tables, 0.0)
        if counts == load.upto(self._tables, load.seconds):
            return found  # no job starts for nothing
        while done < load.seconds:
            seen = min(now - self._staged_after, load.seconds)
            mine = load.upto(self._tables, seen) if seen > done else counts
            age = now - done - self._staged_after + (0.0 if setting.stays else fixed.TICK)
            if mine == counts and seen >= load.seconds:
                break
            begun, listed = now, now + self._look(now, max(0.0, seen - done) if mine != counts else 0.0)
            if mine == counts or age < setting.every:
                now = listed + fixed.POLL if setting.stays else _next_tick(listed)
                continue
            if not setting.stays:
                found.starts += 1
                listed += self._costs.start
            now = self._commit([b - a for a, b in zip(counts, mine, strict=True)], (done, seen), listed)
            counts, done = mine, seen
            found.busy += now - begun
            found.longest = max(found.longest, now - begun)
            if not setting.stays:
                now = _next_tick(now)
        found.end = now
        return found

    @property
    def slope(self) -> float:
        """Seconds of work that a second of large ranges makes. From 1 on no round catches up."""
        costs, setting = self._costs, self._setting
        back = min(setting.listed, fixed.RECENT) if setting.stays else setting.listed
        listing = math.ceil(self._requests * back / fixed.PAGE) * costs.request
        listing += self._requests * back * costs.key / costs.speed
        waits = costs.request * (1 / fixed.FOOTERS_AT_ONCE + 1 / fixed.FETCHES_AT_ONCE / costs.cores)
        counts, seconds = self._load.upto(self._tables, self._load.seconds), max(1e-9, self._load.seconds)
        mine = sum(counts) / seconds
        cpu = costs.sliced_read * self._changes + (costs.sliced - costs.sliced_read) * mine
        cpu += self._objects(counts, self._requests * seconds, fixed.PACKED) / seconds
        return self._requests * (waits + listing / fixed.MAX_BATCHES) + cpu / (costs.spread * costs.cores * costs.speed)

    def _objects(self, counts: Sequence[int], objects: float, together: int) -> float:
        """CPU seconds of reading staged objects that hold so many changes of each table: what each of them costs, and
        each table that has changes in it. `together`: changes of small ones that are read as one."""
        costs, events = self._costs, sum(counts)
        if not events or not objects:
            return 0.0
        some = min(objects, max(1.0, events / together))
        parts, held = (sum(one * -math.expm1(-n / one) for n in counts) for one in (objects, some))
        return objects * costs.object + parts * costs.part + held * costs.held

    def _look(self, now: float, span: float) -> float:
        """Seconds of listing, of which the pages come one after the other, for each epoch that what came in a span of
        time fills; and of the footers of what is new."""
        batches, back = self._requests * span, self._setting.listed
        if self._setting.stays and now - self._listed < fixed.LATE:
            back = min(back, fixed.RECENT + span)
        else:
            self._listed = now
        keys = self._requests * back
        times = max(1, math.ceil(batches / fixed.MAX_BATCHES))
        pages = times * (math.ceil(keys / fixed.PAGE) + fixed.SHORT_LISTS)
        self.found.lists += pages
        cpu = times * keys * self._costs.key
        self.found.cpu += cpu
        return cpu / self._costs.speed + (pages + batches / fixed.FOOTERS_AT_ONCE) * self._costs.request

    def _commit(self, counts: Sequence[int], span: tuple[float, float], now: float) -> float:
        """One round of what came in a span of time. -> when the next one may begin."""
        costs, found = self._costs, self.found
        touched = sorted((n, place) for place, n in enumerate(counts) if n)
        events = sum(counts)
        small = events <= fixed.SMALL_EVENTS
        small = small and events * self._setting.event_bytes * fixed.STAGED <= fixed.SMALL_BYTES
        fraction = events / max(1e-9, self._changes * (span[1] - span[0]))
        whole, objects = min(1.0, max(1e-9, fraction)), self._requests * (span[1] - span[0])
        read = (costs.read if small else costs.sliced_read) * events / whole
        read += self._objects(counts, objects, fixed.TOGETHER if small else fixed.PACKED) / whole
        rest = (costs.change - costs.read if small else costs.sliced - costs.sliced_read) * events
        every = len(self._tables) + self._setting.still
        looks = min(every, len(touched) + fixed.TURN * math.ceil(max(1.0, objects) / fixed.MAX_BATCHES))
        looked = costs.round + costs.state * looks
        reads_at_once = costs.cores if events / whole > fixed.ALONE else 1
        waits = costs.request * (10 + looks / fixed.LOOKS_AT_ONCE)
        waits += objects / fixed.FETCHES_AT_ONCE / reads_at_once * costs.request
        now += looked / costs.speed + waits + (read + rest) / (costs.spread * reads_at_once * costs.speed)
        each = costs.table if small else costs.sliced_table
        at_once = costs.together if small else costs.spread * costs.cores
        alone = each / costs.speed + costs.in_a_row * costs.request
        for n, place in touched:
            threads = fixed.THREADS if n <= fixed.FEW else max(2, min(costs.cores, fixed.THREADS))
            now += max(each / at_once / costs.speed, alone / threads)
            found.age.add(now - span[1], now - span[0], n)
            self._commits[place] += 1
        now += 2 * costs.request + every * fixed.CUT_BYTES / 100e6
        found.cut.add(now - span[1], now - span[0], events)
        cared = sum(self._commits[place] % _turn(self._tables[place]) == 0 for _, place in touched)
        now += cared * (costs.care / costs.speed + costs.in_a_row * costs.request)
        found.cpu += looked + read + rest + len(touched) * each + cared * costs.care
        found.rounds, found.commits = found.rounds + 1, found.commits + len(touched)
        found.most = max([found.most, *(self._commits[place] for _, place in touched)])
        return now


def _turn(table: int) -> int:
    """How many commits after a merge a table is cared for again: CARE_EVERY on average, by a number of its own."""
    return fixed.CARE_EVERY - fixed.CARE_EVERY // 2 + table * 2_654_435_761 % 2**32 % fixed.CARE_EVERY


def _next_tick(now: float) -> float:
    return fixed.TICK * math.floor(now / fixed.TICK + 1)


def simulate(load: Load, costs: Costs, setting: Setting) -> Found:
    """All jobs: of streams, each with a part of the tables, and of the lanes of each."""
    found = Found()
    for stream in range(setting.streams):
        mine = load.tables[stream :: setting.streams]
        changes = sum(load.upto(mine, load.seconds)) / max(1e-9, load.seconds)
        share = changes, changes * setting.event_bytes / setting.body
        for lane in range(setting.lanes):
            if tables := mine[lane :: setting.lanes]:
                found.take(Job(load, tables, costs, setting, share).run())
    return found


def row(load: Load, costs: Costs, setting: Setting, shards: str) -> dict[str, Any]:
    """One line of the table: freshness, what it takes, what it costs, and how much of each limit it uses.

    A load whose rounds are long is looked at for as long as it takes to have many, with the care of tables among them.
    """
    found, jobs = simulate(load, costs, setting), setting.streams * min(setting.lanes, len(load.tables))
    while found.slope < 1 and 0 < found.rounds < _ROUNDS * jobs:
        load = load.longer(load.seconds * max(1.5, _ROUNDS * jobs / found.rounds))
        found = simulate(load, costs, setting)
    came = sum(load.upto(load.tables, load.seconds)) - sum(load.upto(load.tables, 0.0))
    seconds = max(load.seconds, found.end, 1.0)
    requests = came * setting.event_bytes / setting.body / max(1.0, load.seconds)
    scheduled = setting.streams * (
        math.ceil(requests / setting.streams * setting.listed / fixed.PAGE) + fixed.SHORT_LISTS
    )
    used = Used(
        requests, setting.body, came / max(1.0, load.seconds), found.commits / seconds,
        found.lists / seconds + scheduled / fixed.TICK, jobs if came else 0, costs.cores,
        1.0 if setting.stays else min(1.0, found.busy / max(1, jobs) / seconds),
    )  # fmt: skip
    bill, behind = dollars(used, costs), found.slope >= 1
    takes = {
        "S3 PUT a second and prefix": used.requests / setting.streams,
        "S3 GET a second and prefix": used.requests / setting.streams * (1 + setting.lanes),
        "Lambda instances at once": used.requests * ingest_seconds(costs, used.body),
        "API requests a second": used.requests,
        "SQS batches at once": used.requests * ingest_seconds(costs, used.body),
        "seconds of a dispatch": scheduled * costs.request,
        "jobs at once": used.jobs,
        "EMR Serverless vCPUs": used.jobs * used.cores,
    }
    kept = min(fixed.SNAPSHOTS, max(fixed.LEAST_SNAPSHOTS, found.most / seconds * fixed.KEEP_SECONDS))
    return {
        "shards": shards, **asdict(setting), "tables": len(load.tables), "jobs": used.jobs,
        "simulated_only": setting.lanes > 1 or (shards == "hash" and len(load.tables) > setting.streams),
        "behind": behind, "slope": round(found.slope, 3),
        "changes": came, "committed": found.age.count, "rounds": found.rounds,
        "round": round(found.busy / max(1, found.rounds), 1), "p50": None if behind else found.age.quantile(0.5),
        "p99": None if behind else found.age.quantile(0.99), "cut_p99": None if behind else found.cut.quantile(0.99),
        "commits_a_second": round(used.commits, 2), "lists_a_second": round(used.lists, 2),
        "cpu_a_second": round(found.cpu / seconds, 2), "starts_a_day": round(found.starts / seconds * 86_400),
        "snapshots_of_busiest": round(kept) if came else 0,
        "metadata_mb_a_commit": round(kept * fixed.SNAPSHOT_BYTES / 1e6, 2) if came else 0.0,
        "cut_mb": round(len(load.tables) / setting.streams * fixed.CUT_BYTES / 1e6, 3),
        "over": [name for name, one in takes.items() if one > LIMITS[name].most and came],
        "limits": {name: {"takes": round(one, 1), "most": LIMITS[name].most} for name, one in takes.items()},
        "dollars": {name: round(one, 2) for name, one in bill.items()}, "dollars_a_month": round(sum(bill.values()), 2),
    }  # fmt: skip


def rows(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All lines."""
    costs = replace(AWS, request=given.request_ms / 1_000, cores=given.cores)
    changes = given.rate * 1e6 / fixed.EVENT_BYTES
    load = zipf(given.tenants, changes, given.skew, given.minutes * 60, given.seed)
    loads = {"tenant": load, "hash": load.hashed(given.hashed)}
    for shards in given.shards:
        for streams in given.streams:
            for lanes in given.lanes if streams == 1 else (1,):
                for every in given.every:
                    setting = Setting(streams, lanes, every, given.body * 1e6)
                    if streams <= len(loads[shards].tables):
                        yield row(loads[shards], costs, setting, shards)


def table(lines: Sequence[dict[str, Any]]) -> str:
    """At most 80 columns."""
    text = ["shards streams lanes  every   round     p50     p99 commits vCPUs  $/month"]
    text.append("                          s       s       s       s     a s")
    for one in lines:
        ages = "  never   never" if one["behind"] else f"{one['p50']:7,.0f} {one['p99']:7,.0f}"
        said = f"{one['shards']:6} {one['streams']:7} {one['lanes']:5} {one['every']:6,.0f} {one['round']:7,.0f}"
        said += f" {ages} {one['commits_a_second']:7,.1f} {one['limits']['EMR Serverless vCPUs']['takes']:5,.0f}"
        mark = ("sim" if one["simulated_only"] else "") + ("!" if one["over"] else "")
        text.append(f"{said} {one['dollars_a_month']:8,.0f} {mark}".rstrip())
    text.append("sim: by simulation alone, in no code yet. never: more comes than jobs take.")
    return "\n".join([*text, "!: more than some limit that holds if nobody raises it (`over` of --json)."])


def anchor(told: dict[str, Any]) -> dict[str, dict[str, float]]:
    """A run of benchmarks/tenants.py, the same load here on such a machine, and by how much they differ.

    How slow the machine was, beside all that ran there, is the run's own: what its rounds take alone by what they took.
    """
    rounds = told["rounds"]
    took = sum(one["seconds"] for one in rounds)
    here = replace(HERE, speed=sum(fixed.round_alone(one["tables"]) for one in rounds) / took)
    load = anchored(told["tables"], told["events"] / told["seconds"], told["seconds"])
    body = told["events"] * fixed.EVENT_BYTES / told["requests"]
    found = simulate(load, here, Setting(body=body, listed=told["seconds"], still=told["tables"] - len(load.tables)))
    puts = found.commits * PUTS_A_COMMIT + told["requests"] * PUTS_A_REQUEST + 2 * found.rounds
    pairs = {
        "p50": (told["table"]["p50"], found.age.quantile(0.5)), "p99": (told["table"]["p99"], found.age.quantile(0.99)),
        "CPU seconds of the job": (told["cpu"]["jobs"], found.cpu),
        "commits": (told.get("commits") or sum(one["tables"] for one in rounds), found.commits),
    }  # fmt: skip
    if "puts" in told:  # else some of its rounds are not in it either
        pairs |= {
            "p99 of cuts": (told["cut"]["p99"], found.cut.quantile(0.99)), "rounds": (len(rounds), found.rounds),
            "objects put": (sum(told["puts"].values()), puts),
        }  # fmt: skip
    return {
        name: {"measured": round(a, 1), "simulated": round(b, 1), "off": round(b / a - 1, 2)}
        for name, (a, b) in pairs.items()
    }


def main() -> None:
    """The table, or JSON, or the comparison."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = arguments.add_argument
    add("--tenants", type=int, default=10_000)
    add("--rate", type=float, default=100.0, help="megabytes a second")
    add("--skew", type=float, default=1.0)
    add("--streams", type=int, nargs="+", default=[1, 10, 100])
    add("--lanes", type=int, nargs="+", default=[1, 2, 4, 8])
    add("--shards", nargs="+", choices=("tenant", "hash"), default=["tenant", "hash"])
    add("--hashed", type=int, default=64, help="tables of shards by hash")
    add("--every", type=float, nargs="+", default=[2.0, 600.0])
    add("--minutes", type=float, default=60.0)
    add("--body", type=float, default=4.0, help="megabytes of a request")
    add("--request-ms", type=float, default=100.0)
    add("--cores", type=int, default=2)
    add("--seed", type=int, default=7)
    add("--json", action="store_true")
    add("--draw", type=Path)
    add("--anchor", type=Path)
    given = arguments.parse_args()
    if given.anchor:
        for line in given.anchor.read_text().splitlines():
            print(json.dumps(anchor(json.loads(line)), indent=1))
        return
    lines = list(rows(given))
    if given.draw:
        draw(lines, given.draw)
    if given.json:
        json.dump(lines, sys.stdout, indent=1)
    else:
        print(table(lines))


def draw(lines: Sequence[dict[str, Any]], to: Path) -> None:
    """p99 by dollars, a line for each way."""
    from benchmarks import report
    from benchmarks.results import Plot

    found: dict[str, list[tuple[float, float]]] = {}
    for one in lines:
        name = f"{one['shards']}, {one['streams']} streams" if one["streams"] > 1 else one["shards"]
        name += f", {one['lanes']} lanes" if one["lanes"] > 1 else ""
        if not one["behind"]:
            found.setdefault(name, []).append((float(one["dollars_a_month"]), one["p99"]))
    plot = Plot("scale", "p99 of freshness by dollars a month", "dollars", "seconds", found, "xy")
    to.write_text(report.svg(plot))


if __name__ == "__main__":
    main()
