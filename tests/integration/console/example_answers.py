"""Answers of every kind, by the contract's own types: a busy stream, one that is held, one that is idle, and so on."""

from collections.abc import Mapping
from typing import Any

from firn.alerts.alert_views import AlertsView, AlertView, DeliveryView, RuleView, TargetView
from firn.audit.batch_status import BatchStatus, DeadStatus, TableStatus
from firn_console.contract.action_pages import Action, ActionDone, ActionField, ActionList, ActionPlan, Session
from firn_console.contract.job_pages import RunAnswer, RunPage, RunProgress, RunRow
from firn_console.contract.letter_pages import HoldPage, HoldRow, LetterAnswer, LetterCount, LetterPage, LetterRow
from firn_console.contract.stream_pages import (
    Backlog,
    BatchPage,
    BatchRow,
    EpochPage,
    EpochRow,
    Need,
    Overview,
    PipelineRow,
    ReceiptAnswer,
    Series,
    SourceRow,
    StreamPage,
    StreamRow,
    TargetRow,
    Totals,
    Way,
)
from firn_console.contract.table_pages import Feed, TableAnswer, TablePage, TableRow, Tier, ViewShown

AT, LATER = "2026-01-31T12:00:00Z", "2026-01-31T12:05:00Z"
BATCH = "019c13ec9e00f424398fc3d6fa58"
SNAPSHOT, BEFORE = "5612345678901234567", "4612345678901234567"

session = Session("embedded", "0.1.0", ("look", "events", "act"), "c0ffee", AT, None)
waiting = Backlog(2, 1_200, 120_000, 4, 32_000, 4_000_000, 1, AT)
nothing = Backlog(0, 0, 0, 0, 0, 0, 0, None)
series = Series(AT, 60, tuple(range(0, 120, 2)), tuple(range(0, 60)))


def stream(name: str, state: Any, backlog: Backlog = nothing, dead: int = 0, held: tuple[str, ...] = ()) -> StreamRow:
    return StreamRow(name, "debezium", state, 5, backlog, AT, LATER, 12, 2.4, 17.9, 15.4, dead, held, series)


streams = (
    stream("bank", "busy", waiting),
    stream("shop", "held", dead=3, held=("shop.orders",)),
    stream("web", "idle"),
)
needs = (
    Need(
        "critical", "table_held", "shop", "shop.orders", "is quarantined", "quarantine", "firn resume shop shop.orders"
    ),
    Need("warning", "dead_letters", "shop", "shop", "has 3 dead letters", "dead-letters?stream=shop", None),
)
overview = Overview(3_600, needs, streams, Totals(8, 17_333, 612_345, 1, 2), {"slow": "its storage took too long"})
stream_page = StreamPage(
    streams[0],
    Way(3_600, 20, 55_462, 34_000_000, 2, 1_200, 4, 32_000, 1, 8_000, 23_000, 22_000, 800, 200, 7),
    (TargetRow("shop.orders", SNAPSHOT, 7, "key_changed", AT), TargetRow("shop.customers", SNAPSHOT, 9, None, None)),
    (PipelineRow("paid", "public.orders", "shop.paid", "append", "SELECT order_id FROM input", 8),),
    (SourceRow("crm", "firn_crm", AT, AT, 1_234, 99_999_999, None, "reserved", 3.4, None, ("one is open",)),),
    ("no key is configured for public.notes",),
)
epochs = EpochPage((EpochRow(12, "sealed", AT, None, None, 4, 4_000, 300_000, {"public.orders": 3_000}),), None)
batches = BatchPage((BatchRow(BATCH, AT, 1_000, 90_000, 12, "committed"),), None)
batch = BatchStatus(
    BATCH,
    "bank",
    "committed",
    AT,
    1_000,
    1,
    {"heartbeat": 2},
    1,
    {"public.orders": 1_000},
    12,
    9,
    targets=[TableStatus("public.orders", 1_000, "shop.orders", "committed", int(SNAPSHOT), 9)],
    dead=[DeadStatus("bank.a1", None, "bad_json", 1, "it ends in a text", "send it again", 0, [])],
)
receipt = ReceiptAnswer(BATCH, AT, "ab" * 32)
hold = HoldRow(
    "shop",
    "shop.orders",
    "table",
    "key_changed",
    "the key is (order_id), firn.yaml says (id)",
    "write the key back, or firn rebuild shop.orders",
    AT,
    7,
    9,
    ("retry", "skip"),
)
holds = HoldPage(
    (hold,), (HoldRow("bank", "epoch 4", "epoch", "crashed", "it ended 3 jobs", "retry", AT, 4, 4, (), LATER, "retry"),)
)
run = RunRow("00f0001", "commit-shop-12", "commit", "shop", 10, 12, 1, "failed", AT, LATER, 300.0, "Job aborted", 11)
runs = RunPage(
    (
        run,
        RunRow("00f0002", "compact", "compact", None, None, None, None, "running", AT, None, None, None, None),
        RunRow(
            "00f0003",
            "commit-shop-13",
            "commit",
            "shop",
            13,
            14,
            1,
            "running",
            AT,
            None,
            None,
            None,
            None,
            RunProgress("shop", 13, 14, "folding", 1_200_000, 3_000_000, 0, 1, AT, 40),
        ),
    ),
    None,
    True,
)
run_answer = RunAnswer(run, "INFO began\nERROR Job aborted\n", "/tmp/jobs/00f0001/stderr")
table_row = TableRow("shop.orders", ("shop",), "due", 6, 2_222, 1, ("compact",), SNAPSHOT, AT)
tables = TablePage((table_row, TableRow("web.clicks", ("web",), "unknown", None, None, None, (), None, None)), 2, None)
health = {
    "table": "shop.orders",
    "measured_at": AT,
    "files": 120,
    "bytes": 123_456_789,
    "rows": 5_000_000,
    "small": 80,
    "delete_files": 3,
    "deleted": 4_200,
    "manifests": 12,
    "snapshots": 1_000,
    "metadata_bytes": 234_567,
    "cold_files": 5,
    "cold_bytes": 9_999_999,
    "due": {"compact": "80 small files"},
    "debts": [
        {
            "what": "small files",
            "value": 80,
            "limit": "16 of a partition",
            "over": True,
            "next": "compacts within 15 min",
        }
    ],
    "partitions": [
        {
            "name": "day=2026-01-31",
            "files": 80,
            "bytes": 99_999,
            "small": 70,
            "delete_files": 2,
            "deleted": 100,
            "rewrite_bytes": 88_888,
        }
    ],
}
table_answer = TableAnswer(
    table_row,
    (Feed("shop", "public.orders", "mirror", ("order_id",), None),),
    None,
    health,
    (Tier("STANDARD", 115, 113_456_789, 2.61), Tier("GLACIER_IR", 5, 9_999_999, 0.00004)),
    "list prices of us-east-1",
    ("a note",),
)
VIEW_SQL = "SELECT region, sum(total) AS total FROM shop.orders GROUP BY region"
view_answer = TableAnswer(
    TableRow("sales.by_region", ("shop",), "held", 12, 4_096, 1, (), None, AT),
    (Feed("shop", "shop.orders", "view", (), None, VIEW_SQL),),
    None,
    None,
    (),
    "list prices of us-east-1",
    (),
    ViewShown("shop", {"crm": 4, "shop": 12}, 300, AT, 4_000.0, LATER, None, True, 4, "Conversion Error: 'abc'"),
)
letter = LetterRow(
    "shop",
    "shop.a1",
    0,
    BATCH,
    3,
    AT,
    "public.orders",
    "type_mismatch",
    "total: 'abc' is not a decimal(10,2)",
    90,
    None,
)
EVENT = '{"op":"c","after":{"order_id":12345678901234567890,"total":"abc"},"lsn":1.50}'
letters = LetterPage(
    (LetterCount("shop", "public.orders", "type_mismatch", 3, 3, "correct the column, or the value by hand"),),
    1,
    1,
    (
        letter,
        LetterRow(
            "shop",
            "shop.a1",
            1,
            BATCH,
            4,
            AT,
            None,
            "bad_json",
            "it ends in a text",
            12,
            "019c13ec9e00f424398fc3d6fa59",
        ),
    ),
    None,
    0,
    3,
    3,
)
letter_answer = LetterAnswer(letter, "correct the column, or the value by hand", EVENT, None, True, True)


alerts = AlertsView(
    (
        TargetView("oncall", "webhook", "secretsmanager:firn/prod/alerts/oncall-url"),
        TargetView("ops", "sns", "arn:aws:sns:eu-central-1:123456789012:firn-alerts"),
    ),
    (
        RuleView("late", "freshness", "shop.orders: a change waits 15 min for its commit", ("oncall", "ops"), 1),
        RuleView("held", "quarantine", "every stream: anything is quarantined", ("oncall",), 0),
    ),
    (
        AlertView(
            "late", "freshness", "shop", "shop.orders", "shop.orders is late: it has waited 17 min", AT, None,
            (
                DeliveryView("oncall", "begun", "sent", 1),
                DeliveryView("ops", "begun", "waits", 2, "it may have arrived; 4 more tries"),
            ),
        ),
        AlertView(
            "held", "quarantine", "bank", "bank.rows", "bank.rows of bank: no longer quarantined after 2 h", AT, LATER,
            (
                DeliveryView("oncall", "begun", "sent", 1),
                DeliveryView("oncall", "ended", "failed", 6, "HTTP 500; given up"),
            ),
        ),
    ),
    7,
)  # fmt: skip


def action(name: str, scope: Any, *fields: str, allowed: bool = True) -> Action:
    command = " ".join((f"firn {name}", *(f"{{{one}}}" for one in fields)))
    optional = (
        ()
        if name != "replay"
        else tuple(ActionField(one, False, one) for one in ("object", "row", "reason", "table", "original"))
    )
    needed = tuple(ActionField(one, True, f"the {one}") for one in fields)
    return Action(name, scope, name.capitalize(), f"This is {name}.", command, needed + optional, allowed)


actions = ActionList(
    (
        action("pause", "stack"),
        action("flush", "stream", "stream"),
        action("resume", "hold", "stream", "name", "how"),
        action("replay", "letters", "stream"),
        Action(
            "test-alerts",
            "alerts",
            "Send a test",
            "Sends a test.",
            "firn alerts test {name}",
            (ActionField("name", False, "a target"),),
            True,
        ),
        action("compact", "table", "table"),
        action("expire", "table", "table", allowed=False),
    )
)


def plan(fields: Mapping[str, str], _body: bytes) -> ActionPlan:
    name = fields["path"].rpartition("/")[2]
    given = " ".join(value for field, value in sorted(fields.items()) if field != "path" and value)
    return ActionPlan(name, name.capitalize(), f"{name} would be done to: {given}", f"firn {name} {given}", True)


def act(fields: Mapping[str, str], body: bytes) -> Any:
    """A plan to who asks, and what was done to who acts."""
    if not body:
        return plan(fields, body)
    return ActionDone(
        fields["path"].rpartition("/")[2], "34 events are on their way", "firn flush shop", "00f0001", ("one line",)
    )


point = {
    "snapshots": 1,
    "first": BEFORE,
    "last": BEFORE,
    "from": AT,
    "to": AT,
    "operation": "append",
    "added": 5,
    "deleted": 0,
    "rows": 5,
}
now = point | {
    "first": SNAPSHOT,
    "last": SNAPSHOT,
    "from": LATER,
    "to": LATER,
    "operation": "overwrite",
    "added": 2,
    "deleted": 1,
    "rows": 6,
}
timeline = {
    "table": "shop.orders",
    "snapshots": 2,
    "oldest": AT,
    "newest": LATER,
    "current": SNAPSHOT,
    "refs": [{"name": "first-day", "type": "tag", "snapshot": BEFORE, "at": AT}],
    "points": [point, now],
}
columns = {
    "table": "shop.orders",
    "key": ["order_id"],
    "schema_id": 1,
    "total": 2,
    "partition": [],
    "next": None,
    "columns": [
        {
            "id": 1,
            "name": "order_id",
            "type": "long",
            "required": False,
            "doc": None,
            "history": [
                {"schema_id": 0, "at": AT, "name": "order_id", "type": "int", "required": False},
                {"schema_id": 1, "at": LATER, "name": "order_id", "type": "long", "required": False},
            ],
        },
        {
            "id": 2,
            "name": "status",
            "type": "string",
            "required": False,
            "doc": "how far it is",
            "history": [{"schema_id": 0, "at": AT, "name": "status", "type": "string", "required": False}],
        },
    ],
}
schema = {
    "table": "shop.orders",
    "key": ["order_id"],
    "columns": [{"name": "order_id", "type": "long"}, {"name": "status", "type": "string"}],
}
result = {
    "snapshots": {"shop.orders": int(SNAPSHOT)},
    "columns": [
        {"name": "order_id", "type": "int64"},
        {"name": "status", "type": "string"},
        {"name": "n", "type": "int64"},
    ],
    "rows": [{"order_id": 9007199254740993, "status": "paid", "n": 4}, {"order_id": 1002, "status": None, "n": 2}],
}
changes = {
    "table": "shop.orders",
    "from": int(BEFORE),
    "to": int(SNAPSHOT),
    "key": ["order_id"],
    "columns": [{"name": "_change", "type": "string"}, *result["columns"][:2], {"name": "_before", "type": "struct"}],
    "rows": [
        {"_change": "update", "order_id": 1, "status": "paid", "_before": {"order_id": 1, "status": "new"}},
        {"_change": "insert", "order_id": 2, "status": "new", "_before": None},
        {"_change": "delete", "order_id": 3, "status": "old", "_before": None},
    ],
}


def everything() -> dict[str, Any]:
    """Pattern of a path below /v1/ -> its answer."""
    return {
        "console/session": session,
        "console/overview": overview,
        "console/streams/[^/]+": stream_page,
        "console/streams/[^/]+/epochs": epochs,
        "console/streams/[^/]+/batches": batches,
        "console/streams/[^/]+/batches/.+": batch,
        "console/streams/[^/]+/receipts": receipt,
        "console/dead-letters": letters,
        "console/dead-letters/.+": letter_answer,
        "console/quarantine": holds,
        "console/alerts": alerts,
        "console/jobs": runs,
        "console/jobs/.+": run_answer,
        "console/tables": tables,
        "console/tables/[^/]+": table_answer,
        "console/tables/sales.by_region": view_answer,
        "console/actions": actions,
        "console/actions/.+": act,
        "tables": {"tables": []},
        "tables/[^/]+/schema": schema,
        "tables/[^/]+/columns": columns,
        "tables/[^/]+/timeline": timeline,
        "tables/[^/]+/changes": changes,
        "query": result,
    }
