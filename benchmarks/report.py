"""docs/benchmarks.md out of the results: what was measured, on what, and every line that must hold, held or not."""

from pathlib import Path
from textwrap import dedent

from benchmarks import cost
from benchmarks.results import Case, Plot, Suite
from firn.deployment import line_plot

FLOORS = ("duckdb", "fold")
NAMES = {
    "firn": "**Firn**",
    "merge-on-read": "PySpark MERGE, merge-on-read", "copy-on-write": "PySpark MERGE, copy-on-write",
    "pyiceberg": "PyIceberg upsert and delete", "delta-rs": "delta-rs merge", "dlt": "dlt, Iceberg upsert",
    "duckdb": "floor: DuckDB, no table format", "fold": "floor: the fold alone, nothing written",
}  # fmt: skip
HEAD = """\
    # Benchmarks

    Made by `make bench` (`make bench SUITE=commit` for one suite, `make bench QUICK=1` to see that it works). Events
    are Debezium's, 70 % updates, 20 % creates, 10 % deletes; the table has six columns and about 110 bytes a row
    (`benchmarks/workload.py`). Times are medians of three runs where nothing else is said; CPU seconds and peak memory
    are those of all processes of a case, peak memory the greatest sum of their resident sets. Every table is read back
    by another engine and compared, row for row by a hash, with what DuckDB says it must be (`benchmarks/reference.py`).

    A warm session has run the same once before. Firn reads staged batches, which ingest wrote as Parquet, decodes the
    row images, folds, looks up, remembers deletes and commits; MERGE reads the same events as NDJSON files with their
    types given. Ratios hold on one machine in one run; absolute times say little.
    """


def markdown(suites: list[Suite], pictures: str) -> str:
    """The page. `pictures`: the folder of the plots, as the page sees it."""
    parts = [dedent(HEAD), "## What must hold\n", _musts(suites), cost.section(suites)]
    for suite in suites:
        parts.append(f"## {suite.name}\n")
        parts.append(f"{suite.about}\n")
        parts.append(f"_{suite.date}, commit {suite.commit}, {suite.machine}{', quick' if suite.quick else ''}._\n")
        if suite.cases:
            parts += [_cases(suite), _stages(suite)]
        parts += [f"![{plot.title}]({pictures}/{plot.name}.svg)\n" for plot in suite.plots]
        if suite.text:
            parts.append(f"```text\n{suite.text.rstrip()}\n```\n")
    return "\n".join(parts)


def draw(suites: list[Suite], folder: Path) -> None:
    """Writes the plots."""
    folder.mkdir(parents=True, exist_ok=True)
    for suite in suites:
        for plot in suite.plots:
            (folder / f"{plot.name}.svg").write_text(svg(plot))


def svg(plot: Plot) -> str:
    """The plot, of what was measured; "" if nothing was."""
    measured = {name: [(x, y) for x, y in line if y == y] for name, line in plot.lines.items()}  # NaN: not measured
    lines = {name: line for name, line in measured.items() if line}
    if not lines:
        return ""

    def axis(of: str, name: str, values: list[float]) -> line_plot.Axis:
        return line_plot.logarithmic(values, name) if of in plot.log else line_plot.linear(max(values), name)

    x, y = ([point[place] for line in lines.values() for point in line] for place in (0, 1))
    return line_plot.document([line_plot.panel(plot.title, axis("x", plot.x, x), axis("y", plot.y, y), lines)])


def _musts(suites: list[Suite]) -> str:
    rows = ["| | suite | what | measured | at most |", "|---|---|---|---|---|"]
    for suite in suites:
        for must in suite.musts:
            word = "quick" if suite.quick else "holds" if must.held else "**FAILS**"
            rows.append(
                f"| {word} | {suite.name} | {must.text} | {must.value:.2f}{must.unit} | {must.most:g}{must.unit} |"
            )
    return "\n".join(rows) + "\n"


def _cases(suite: Suite) -> str:
    rows = ["| who | s | CPU s | peak MB | by the floor | right |", "|---|---|---|---|---|---|"]
    group = ""
    for case in suite.cases:
        if case.group != group:
            group = case.group
            rows.append(f"| _{group}_ | | | | | |")
        right = {None: "", True: "yes", False: "**no**"}[case.right]
        name = NAMES.get(case.who, case.who) + (f" ({case.note})" if case.note else "")
        figures = f"{_number(case.median(), 2)} | {_number(case.median('cpu'), 1)} | {_number(case.median('peak'), 0)}"
        rows.append(f"| {name} | {figures} | {_by_floor(suite, case)} | {right} |")
    return "\n".join(rows) + "\n"


def _stages(suite: Suite) -> str:
    """Where the job's own log says that its time went, for the cases that have it."""
    said = [(case, case.runs[-1]["stages"]) for case in suite.cases if case.runs and case.runs[-1].get("stages")]
    if not said:
        return ""
    names = list(dict.fromkeys(name for _, stages in said for name in stages))
    rows = [f"| Firn, seconds of the last run | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for case, stages in said:
        rows.append(f"| {case.group} | {' | '.join(_number(stages.get(name, 0.0), 2) for name in names)} |")
    return "\n".join(rows) + "\n"


def _by_floor(suite: Suite, case: Case) -> str:
    floor = next((f for f in (suite.case(case.group, who) for who in FLOORS) if f.runs), None)
    return "" if floor is None or not case.runs else f"{case.median() / floor.median():.1f}"


def _number(value: float, digits: int) -> str:
    return "" if value != value else f"{value:,.{digits}f}"
