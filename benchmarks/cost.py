"""What a million changes cost on EMR Serverless, by the CPU seconds that were measured.

EMR Serverless bills each worker by the second, for its vCPUs and memory, from its start to its end, at least a minute
(https://aws.amazon.com/emr/pricing/). A million changes cost at least their CPU seconds, on workers that do nothing
else; a worker that waits (`linger`, a slow catalog) costs as much as one that works.
"""

from dataclasses import dataclass

from benchmarks.results import Case, Suite
from firn.usage.prices import EMR_GB_HOUR, EMR_VCPU_HOUR


@dataclass(frozen=True)
class Prices:
    """Dollars an hour. `said`: whose, and when they were looked up (as others quote them: check your own bill)."""

    said: str
    vcpu: float
    gigabyte: float

    def worker_second(self, vcpus: float, gigabytes: float) -> float:
        """Dollars for a second of such a worker."""
        return (vcpus * self.vcpu + gigabytes * self.gigabyte) / 3_600


PRICES = Prices("2026-11-21, us-east-1, Linux on x86", vcpu=EMR_VCPU_HOUR, gigabyte=EMR_GB_HOUR)
GIGABYTES_A_VCPU = 4
SMALLEST = (2, 8)  # vCPUs and GB of a driver that works alone, with Spark in local mode
_ALWAYS = 24 * 3_600


def dollars(cpu_seconds: float) -> float:
    """What so many CPU seconds cost on workers with GIGABYTES_A_VCPU that are never idle."""
    return cpu_seconds * PRICES.worker_second(1, GIGABYTES_A_VCPU)


def section(suites: list[Suite]) -> str:
    """The part of the page; "" if nothing was measured."""
    cases = [case for suite in suites for case in suite.cases if case.events and case.runs and case.right is not False]
    firn = {case.group: case for case in cases if case.who == "firn"}
    if not firn:
        return ""
    merge = {case.group: case for case in cases if case.who == "merge-on-read"}
    rows = ["| a million changes, committed as | vCPU s | dollars | MERGE, merge-on-read |", "|---|---|---|---|"]
    for group, case in firn.items():
        other = _told(merge[group]) if group in merge else ""
        cpu = _million(case)
        rows.append(f"| {group} | {cpu:,.0f} | {dollars(cpu):.4f} | {other} |")
    always = PRICES.worker_second(*SMALLEST) * _ALWAYS
    minute = PRICES.worker_second(*SMALLEST) * 60
    vcpus, gigabytes = SMALLEST
    return "\n".join(
        [
            "## What it costs on EMR Serverless\n",
            f"By the list prices of {PRICES.said}: {PRICES.vcpu:g} dollars a vCPU-hour, {PRICES.gigabyte:g} a GB-hour,"
            f" workers of {GIGABYTES_A_VCPU} GB a vCPU that are never idle. vCPU seconds are the CPU seconds of this"
            " machine's cores. Requests to storage and Lambda come on top.\n",
            *rows,
            "",
            f"A worker that waits is billed too. A driver of {vcpus} vCPUs and {gigabytes} GB that stays all day"
            f" (changes come at least once a `linger`) costs {always:.2f} dollars a day, whatever the number of"
            f" streams that share it; a new one costs at least {minute:.4f} dollars for its minute, so every"
            f" quarter of an hour {minute * 96:.2f} dollars a day.\n",
        ]
    )


def _million(case: Case) -> float:
    return case.median("cpu") * 1e6 / case.events


def _told(case: Case) -> str:
    cpu = _million(case)
    return f"{cpu:,.0f} vCPU s, {dollars(cpu):.4f}"
