"""`firn sources add`: what it finds of a database, and what it writes; `firn status` of sources."""

from datetime import UTC, datetime, timedelta

import obstore.store
import pytest

from firn.config.pull_source import PostgresAddress, PullSource
from firn.config.reader import parse
from firn.log import layout, published_configs, pulls
from firn.sources.poller import SourceStatus
from firn.status.source_status import source_states
from firn_cli.commands import sources
from firn_cli.source_checks import Publication, PublishedTable, Slot, Survey, check
from firn_cli.source_lines import added, source_lines, stream_lines

ORDERS = PublishedTable("public", "orders", "d", ("id",))
GOOD = Survey(15, "logical", False, True, "firn", 5, 10**10, Publication(True), Slot("pgoutput", True), (ORDERS,))
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def survey(**change) -> Survey:
    from dataclasses import replace

    return replace(GOOD, **change)


def found(one: Survey) -> list[tuple[str, str, str]]:
    return [(f.what, f.severity, f.run) for f in check(one, "firn_shop", "firn").found if f.severity != "good"]


def test_a_database_that_is_ready_has_nothing_to_do() -> None:
    findings = check(GOOD, "firn_shop", "firn")
    assert not findings.open
    assert [one.severity for one in findings.found] == ["good"] * 4


@pytest.mark.parametrize(
    ("change", "what", "severity", "run"),
    [
        ({"wal_level": "replica"}, "wal_level", "refused", "ALTER SYSTEM SET wal_level = logical;"),
        ({"replica": True}, "server", "refused", ""),
        ({"version": 9}, "server", "refused", ""),
        ({"may_replicate": False, "user": 'a"b'}, "rights", "refused", 'ALTER ROLE "a""b" REPLICATION;'),
        ({"slot": None}, "slot", "to do", "SELECT pg_create_logical_replication_slot('firn_shop', 'pgoutput');"),
        ({"slot": Slot("wal2json", True)}, "slot", "refused", ""),
        ({"slot": Slot("pgoutput", True, "lost")}, "slot", "refused", "SELECT pg_drop_replication_slot('firn_shop');"),
        ({"publication": Publication(True, "iu")}, "publication", "note", ""),
        (
            {"keep_bytes": -1}, "disk", "note",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf();",
        ),
        (
            {"tables": (PublishedTable("a.b", "c", "d", ("id",)), PublishedTable("a", "b.c", "d", ("id",)))},
            "a.b.c", "refused", "",
        ),
        (
            {"tables": (PublishedTable("public", "t", "n", ("id",)),)}, "public.t", "refused",
            'ALTER TABLE "public"."t" REPLICA IDENTITY DEFAULT;',
        ),
        (
            {"tables": (PublishedTable("public", "t", "d", ()),)}, "public.t", "refused",
            'ALTER TABLE "public"."t" REPLICA IDENTITY FULL;',
        ),
        ({"tables": (PublishedTable("public", "t", "f", ()),)}, "public.t", "note", ""),
        ({"tables": (PublishedTable("public", "t", "d", ("id",), ("sum",)),)}, "public.t", "note", ""),
        (
            {"publication": None}, "publication", "to do",
            'CREATE PUBLICATION "firn" FOR TABLE "public"."orders" WITH (publish_via_partition_root = true);',
        ),
        (
            {"tables": (PublishedTable("s", "t", "d", ("id",), published=False),)}, "publication", "to do",
            'ALTER PUBLICATION "firn" ADD TABLE "s"."t";',
        ),
        (
            {"publication": Publication(False), "tables": (PublishedTable("s", "t", "d", ("id",), partitioned=True),)},
            "publication", "to do", 'ALTER PUBLICATION "firn" SET (publish_via_partition_root = true);',
        ),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_with_what_to_run(change, what: str, severity: str, run: str) -> None:
    assert found(survey(**change)) == [(what, severity, run)]


def test_what_a_table_without_identity_breaks_is_nothing_where_no_updates_are_published() -> None:
    tables = (PublishedTable("public", "t", "d", ()),)
    assert "refused" not in [s for _, s, _ in found(survey(tables=tables, publication=Publication(True, "i")))]


def test_the_lines_are_read_as_they_were_meant_and_what_is_there_stays() -> None:
    source = PullSource("shop", PostgresAddress("db", 5432, "firn", "shop"), "firn_shop", "my pub", "shop", "file:/pw")
    tables = (ORDERS, PublishedTable("public", "no key", "f", ()), PublishedTable("audit", "Log", "d", ("a", "null")))
    before = "# mine\nstreams:   # these\n  web:\n    tables: {'*': {to: 'web.{table}'}}\n"
    text = added(before, "streams", stream_lines("shop", tables))
    text = added(text or "", "sources", source_lines(source, "postgresql://firn@db/shop"))
    config = parse(text or "")
    assert (text or "").startswith("# mine\nstreams:   # these\n  shop:\n")
    assert config.sources == {"shop": source}
    assert {rule.source: (rule.to, rule.key, rule.mode) for rule in config.streams["shop"].tables} == {
        "public.orders": ("shop.orders", ("id",), "mirror"),
        "public.no key": ("shop.no key", None, "append"),
        "audit.Log": ("audit.Log", ("a", "null"), "mirror"),
    }
    assert "web" in config.streams
    fresh = added(
        added("", "streams", stream_lines("shop", (ORDERS,))) or "",
        "sources",
        source_lines(source, "postgresql://firn@db/shop"),
    )
    assert parse(fresh or "").sources == {"shop": source}
    assert added("streams: {web: {}}\n", "streams", ["  shop:"]) is None


def test_a_password_in_the_address_is_used_and_written_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    address, password, plain = sources._address("postgres://fi%40rn:s3cret%2F@db.internal:6432/shop?sslmode=require")
    assert (address.user, address.port, address.tls, password) == ("fi@rn", 6432, "require", "s3cret/")
    assert plain == "postgres://fi%40rn@db.internal:6432/shop?sslmode=require"
    with pytest.raises(Exception, match="is not an address of PostgreSQL") as refused:
        sources._address("mysql://u:s3cret@db/shop")
    assert "s3cret" not in str(refused.value)


CONFIG = """
streams: {shop: {tables: {'*': {to: 'shop.{table}'}}}}
sources: {shop: {postgres: 'postgresql://firn@db/shop', stream: shop}}
"""


def notes(status: SourceStatus | None, now: datetime = NOW) -> tuple[str, ...]:
    store = obstore.store.MemoryStore()
    published_configs.publish(store, CONFIG)
    if status is not None:
        pulls.write_state(store, "shop", "shop", status)
    [state] = source_states(store, now)
    assert state.row()["source"] == "shop"
    return state.notes


def test_status_says_what_needs_a_look() -> None:
    at = layout.instant(NOW)
    assert notes(SourceStatus(at, at, wal_status="reserved", safe=10**9, kept=10**6)) == ()
    assert "no pull has looked" in notes(None)[0]
    assert notes(SourceStatus(at, stopped="do this"))[0] == "STOPPED: do this"
    assert notes(SourceStatus(at, waits="away"))[0] == "waits: away"
    assert "for 20 minutes" in notes(SourceStatus(at), NOW + timedelta(minutes=20))[0]
    assert "unreserved" in notes(SourceStatus(at, wal_status="unreserved"))[0]
    assert "lost after 1.0 MB more" in notes(SourceStatus(at, wal_status="extended", safe=10**6, kept=10**9))[0]
    assert "without a limit" in notes(SourceStatus(at, wal_status="reserved", kept=20 << 30))[0]
    assert "process 7" in notes(SourceStatus(at, oldest="process 7 of app", oldest_seconds=900.0))[0]
