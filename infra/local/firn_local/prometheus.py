"""GET /metrics: what CloudWatch would make of the functions' and the jobs' logs, in Prometheus's text format.

On AWS the lines in embedded metric format become metrics by themselves; here they are read out of the same logs, from
the start of the stack on. https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from firn.metrics import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# These say how things are; all others count what happened.
GAUGES = frozenset(metric.value for metric in Metric if metric.kind == "gauge")
_MARK = b'"_aws"'

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Sums up the logs in {folder}/logs and {folder}/jobs. May be asked by many threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = {path: path.stat().st_size for path in self._files()}  # what an earlier stack counted
        self._counters: Counter[tuple[str, Labels]] = Counter()
        self._gauges: dict[tuple[str, Labels], float] = {}
        self._lock = threading.Lock()

    def count(self, metric: Metric, **labels: str) -> None:
        """One more of the stack's own."""
        with self._lock:
            self._counters[metric.value, tuple(sorted(labels.items()))] += 1

    def text(self) -> str:
        """Everything so far, as Prometheus reads it."""
        with self._lock:
            for path in self._files():
                for line in self._new_lines(path):
                    self._take(line)
            return "".join((*_block(self._counters, "counter"), *_block(self._gauges, "gauge")))

    def _files(self) -> list[Path]:
        return sorted([*self._folder.glob("logs/*.log"), *self._folder.glob("jobs/*/stdout")])

    def _new_lines(self, path: Path) -> Iterable[bytes]:
        """The lines with metrics that were ended since the last look."""
        with path.open("rb") as opened:
            opened.seek(self._read.get(path, 0))
            for line in opened:
                if not line.endswith(b"\n"):
                    break  # its writer is in the middle of it
                self._read[path] = self._read.get(path, 0) + len(line)
                if _MARK in line:
                    yield line

    def _take(self, line: bytes) -> None:
        try:
            said: dict[str, Any] = json.loads(line)
            for group in said["_aws"]["CloudWatchMetrics"]:
                # The first set of dimensions is the finest; the others count the same once more.
                labels = tuple(sorted((name, str(said[name])) for name in group["Dimensions"][0]))
                for metric in group["Metrics"]:
                    value = said[metric["Name"]]
                    self._add(metric["Name"], labels, sum(value) if isinstance(value, list) else value)
        except (ValueError, KeyError, TypeError, IndexError):
            return  # somebody else's line

    def _add(self, name: str, labels: Labels, value: float) -> None:
        if name in GAUGES:
            self._gauges[name, labels] = value
            return
        name = name if name.startswith(("firn_", "dlq_")) else f"firn_{name}"
        self._counters[name if name.endswith("_total") else f"{name}_total", labels] += value  # type: ignore[assignment]


def _block(values: Mapping[tuple[str, Labels], float], kind: str) -> Iterable[str]:
    before = ""
    for (name, labels), value in sorted(values.items()):
        if name != before:
            yield f"# TYPE {name} {kind}\n"
            before = name
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"{name}{{{shown}}} {value:.15g}\n" if shown else f"{name} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
