"""All suites, or those named, one after the other; their results into docs/benchmarks.md.

    python -m benchmarks [--quick] [SUITE …]

Runs in the peers' environment (.venv-bench) and starts Firn's cases in Firn's own. Exit code 1 if a line that must hold
does not, or a table of Firn's is wrong. A quick run judges no line, only whether tables are right, and writes to
.cache/bench/quick, never into docs.
"""

import argparse
import json
import sys
from pathlib import Path

from benchmarks import report
from benchmarks.bench import CACHE, PLAIN, RED, Bench
from benchmarks.results import ROOT, Suite, suite_of
from benchmarks.suites import SUITES


def main() -> int:
    """Runs, keeps, renders."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("suites", nargs="*", metavar="SUITE", help=f"of: {', '.join(SUITES)}")
    arguments.add_argument("--runs", type=int, help="instead of 3, of which the medians are told")
    arguments.add_argument("--own", action="store_true", help="Firn and the floors alone, without the others")
    arguments.add_argument("--quick", action="store_true", help="small sizes, one run: does everything work?")
    arguments.add_argument("--render", action="store_true", help="only write the page again")
    given = arguments.parse_args()
    if unknown := [name for name in given.suites if name not in SUITES]:
        arguments.error(f"there is no suite {unknown[0]}; there are {', '.join(SUITES)}")
    page = CACHE / "quick" / "benchmarks.md" if given.quick else ROOT / "docs" / "benchmarks.md"
    results = page.parent / "benchmarks"
    results.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    for name in [] if given.render else given.suites or SUITES:
        suite = Suite(name, (SUITES[name].__doc__ or "").strip())
        print(f"{name}: {suite.about}", flush=True)
        SUITES[name](Bench(suite, given.quick, given.runs, own=given.own))
        (results / f"{name}.json").write_text(json.dumps(suite.json(), indent=1) + "\n")
        failed += [must.text for must in suite.musts if not must.held and not given.quick]
        # A peer that is wrong is wrong in the page; only Firn's own mistakes and the reference's fail the run.
        ours = [case for case in suite.cases if case.who in ("firn", "duckdb")]
        failed += [f"{case.group}, {case.who}: wrong" for case in ours if case.right is False]
        _render(page, results)
    if given.render:
        _render(page, results)
    for text in failed:
        print(f"{RED}FAILS{PLAIN} {text}")
    return int(bool(failed))


def _render(page: Path, results: Path) -> None:
    kept = [results / f"{name}.json" for name in SUITES]
    suites = [suite_of(json.loads(path.read_text())) for path in kept if path.exists()]
    page.write_text(report.markdown(suites, results.name))
    report.draw(suites, results)


if __name__ == "__main__":
    sys.exit(main())
