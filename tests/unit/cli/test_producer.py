import subprocess
import sys
import threading
import time
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from ingress import Ingress

import firn
from firn.client import Retry, StreamUnreachable
from firn.errors import ConfigError, FirnError, RequestError

QUICK = Retry(tries=4, first_wait=0.001, longest_wait=0.01)


@pytest.fixture(autouse=True)
def no_producer_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer starts later than those before it to the same address, and another test may have had the same port."""
    monkeypatch.setattr("firn.producer._started", {})


def test_inserts_updates_and_deletes_become_debezium_envelopes_in_order(ingress: Ingress) -> None:
    with firn.Producer("shop", url=ingress.url, clock=lambda: 1700000000.5) as shop:
        shop.insert("public.orders", {"id": 1, "note": "ü"})
        shop.update("public.orders", {"id": 2}, before={"id": 1})
        shop.delete("orders", {"id": 2})
        flushed = shop.flush()
    assert flushed.counts == {"insert": 1, "update": 1, "delete": 1}
    assert flushed.batch_ids == ("batch-1",)
    assert flushed.bytes == len(ingress.requests[0]["body"])
    insert, update, delete = ingress.events
    assert insert == {
        "before": None,
        "after": {"id": 1, "note": "ü"},
        "source": {
            "connector": "firn",
            "name": "shop",
            "schema": "public",
            "table": "orders",
            "ts_ms": 1700000000500,
            "sequence": "[1700000000500,1]",
        },
        "op": "c",
        "ts_ms": 1700000000500,
    }
    assert (update["op"], update["before"], update["after"]) == ("u", {"id": 1}, {"id": 2})
    assert (delete["op"], delete["before"], delete["after"]) == ("d", {"id": 2}, None)
    assert "schema" not in delete["source"]
    assert [event["source"]["sequence"] for event in ingress.events] == [f"[1700000000500,{n}]" for n in (1, 2, 3)]
    assert ingress.requests[0]["path"] == "/v1/streams/shop"


def test_plain_rows_are_sent_as_they_are_a_batch_for_each_table(ingress: Ingress) -> None:
    with firn.Producer("web", url=ingress.url) as web:
        web.send({"id": 1, "price": Decimal("9.90")}, "a b")
        web.send(({"id": n} for n in (2, 3)), "a b")
        web.send([{"id": 4, "when": date(2026, 1, 31)}])
        flushed = web.flush()
    assert flushed.counts["row"] == 4
    assert [one["path"] for one in ingress.requests] == ["/v1/streams/web/tables/a%20b", "/v1/streams/web"]
    assert ingress.events == [{"id": 1, "price": "9.90"}, {"id": 2}, {"id": 3}, {"id": 4, "when": "2026-01-31"}]


def test_all_rows_are_taken_where_the_stream_is_away_for_a_moment(ingress: Ingress) -> None:
    web = firn.Producer("web", url=ingress.url, batch_size=10, flush_interval=60, retry=Retry(tries=1))
    ingress.planned = [(503, {}, {})]
    with pytest.raises(StreamUnreachable):
        web.send(({"id": n} for n in range(25)), "users")
    assert web.close().counts["row"] == 25
    assert ingress.events == [{"id": n} for n in range(25)]


def test_a_table_that_is_refused_holds_up_no_other(ingress: Ingress) -> None:
    web = firn.Producer("web", url=ingress.url, flush_interval=60, retry=QUICK)
    refusal = (404, {}, {"error": "unknown_table", "message": "no rule"})
    ingress.planned = [refusal, refusal, None, refusal, refusal, None]  # each that is of `typo`
    web.send({"of": "typo"}, "typo")
    for table in ("users", "typo", "clicks"):  # a row of another table sends what was taken before it
        with pytest.raises(RequestError, match="no rule"):
            web.send({"of": table}, table)
    with pytest.raises(RequestError, match="no rule"):
        web.flush()
    assert ingress.events == [{"of": "users"}, {"of": "clicks"}]
    assert web.close().counts["row"] == 4, "the refused ones went in their order once they were let in"
    assert ingress.events[2:] == [{"of": "typo"}] * 2


def test_a_full_batch_is_sent_without_a_flush(ingress: Ingress) -> None:
    with firn.Producer("shop", url=ingress.url, batch_size=10, flush_interval=60) as shop:
        for number in range(25):
            shop.insert("t", {"id": number})
        assert [len(one["body"].splitlines()) for one in ingress.requests] == [10, 10]
        flushed = shop.flush()
    assert flushed.counts["insert"] == 25
    assert len(flushed.batch_ids) == 3


def test_what_waits_is_sent_after_the_flush_interval(ingress: Ingress) -> None:
    with firn.Producer("shop", url=ingress.url, flush_interval=0.05) as shop:
        shop.insert("t", {"id": 1})
        deadline = time.monotonic() + 5
        while not ingress.staged and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(ingress.events) == 1
        assert shop.flush().counts["insert"] == 1  # background sends are reported too
        assert shop.flush().counts["insert"] == 0


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_stream_is_asked_again_with_the_same_key(ingress: Ingress, status: int) -> None:
    ingress.planned = [(status, {"Retry-After": "0"}, {}), (status, {}, {})]
    with firn.Producer("shop", url=ingress.url, retry=QUICK) as shop:
        shop.insert("t", {"id": 1})
        assert shop.flush().counts["insert"] == 1
    assert len(ingress.requests) == 3
    assert len({one["key"] for one in ingress.requests}) == 1


def test_an_answer_that_was_lost_stages_nothing_twice(ingress: Ingress) -> None:
    ingress.planned = ["drop"]
    with firn.Producer("shop", url=ingress.url, retry=QUICK) as shop:
        shop.insert("t", {"id": 1})
        flushed = shop.flush()
    assert flushed.duplicates == 1
    assert len(ingress.requests) == 2
    assert len(ingress.events) == 1


def test_changes_wait_while_the_stream_is_away(ingress: Ingress) -> None:
    ingress.planned = [(503, {}, {})] * 4
    shop = firn.Producer("shop", url=ingress.url, retry=QUICK)
    shop.insert("t", {"id": 1})
    with pytest.raises(StreamUnreachable, match="HTTP 503, 4 tries"):
        shop.flush()
    shop.insert("t", {"id": 2})
    assert shop.close().counts["insert"] == 2
    assert [event["after"]["id"] for event in ingress.events] == [1, 2]


def test_nothing_listens_at_the_url() -> None:
    shop = firn.Producer("shop", url="http://127.0.0.1:9", retry=QUICK)
    shop.insert("t", {"id": 1})
    with pytest.raises(StreamUnreachable, match=r"http://127.0.0.1:9/v1/streams/shop: ConnectionRefused"):
        shop.close()


def test_a_stack_that_never_ran_is_named_within_two_seconds() -> None:
    began = time.monotonic()
    with pytest.raises(StreamUnreachable, match=r"nothing listens at http://127\.0\.0\.1:9: .*firn up"):  # noqa: SIM117
        with firn.Producer("shop", url="http://127.0.0.1:9") as shop:
            shop.insert("public.orders", {"id": 1})
    assert time.monotonic() - began < 2


def test_a_refused_batch_says_why(ingress: Ingress) -> None:
    ingress.planned = [(404, {}, {"error": "unknown_stream", "message": "no stream 'shop'"})]
    shop = firn.Producer("shop", url=ingress.url, retry=QUICK)
    shop.insert("t", {"id": 1})
    with pytest.raises(RequestError, match="HTTP 404: no stream 'shop'") as refused:
        shop.close()
    assert (refused.value.status, refused.value.code) == (404, "unknown_stream")


def test_rejected_events_are_reported_with_their_batch(ingress: Ingress) -> None:
    errors = [{"index": 0, "reason": "bad_event"}]
    ingress.planned = [(202, {}, {"batch_id": "b", "accepted": 0, "rejected": 1, "duplicate": False, "errors": errors})]
    with firn.Producer("shop", url=ingress.url) as shop:
        shop.insert("t", {})
        flushed = shop.flush()
    assert flushed.rejected == 1
    assert flushed.errors == ({"batch_id": "b", "index": 0, "reason": "bad_event"},)


def test_values_travel_without_loss(ingress: Ingress) -> None:
    row = {
        "price": Decimal("1.10"),
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "id": uuid.UUID(int=7),
        "raw": b"\x00\xff",
        "nan": float("nan"),
        "low": float("-inf"),
        "tags": ("a", "b"),
    }
    with firn.Producer("shop", url=ingress.url) as shop:
        shop.insert("t", row)
    assert ingress.events[0]["after"] == {
        "price": "1.10",
        "at": "2026-01-31T12:00:00+00:00",
        "day": "2026-01-31",
        "id": "00000000-0000-0000-0000-000000000007",
        "raw": "AP8=",
        "nan": "NaN",
        "low": "-Infinity",
        "tags": ["a", "b"],
    }


def test_a_value_that_can_not_travel_is_refused_at_once(ingress: Ingress) -> None:
    with firn.Producer("shop", url=ingress.url) as shop, pytest.raises(TypeError, match="type object can't be sent"):
        shop.insert("t", {"id": object()})
    assert ingress.requests == []


def test_many_threads_share_a_producer_and_each_position_is_used_once(ingress: Ingress) -> None:
    with firn.Producer("shop", url=ingress.url, batch_size=50) as shop:

        def insert_many() -> None:
            for number in range(200):
                shop.insert("t", {"id": number})

        threads = [threading.Thread(target=insert_many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    counters = [int(event["source"]["sequence"].strip("[]").split(",")[1]) for event in ingress.events]
    assert counters == list(range(1, 801))


def test_batches_stay_below_the_body_limit(ingress: Ingress) -> None:
    with firn.Producer("shop", url=ingress.url, batch_size=1000) as shop:
        for number in range(5):
            shop.insert("t", {"id": number, "text": "x" * 1_000_000})
    assert [len(one["body"].splitlines()) for one in ingress.requests] == [2, 2, 1]


def test_a_closed_producer_takes_nothing(ingress: Ingress) -> None:
    shop = firn.Producer("shop", url=ingress.url)
    shop.close()
    with pytest.raises(FirnError, match="closed"):
        shop.insert("t", {"id": 1})


def test_importing_the_producer_stays_light() -> None:
    heavy = "'rich', 'typer', 'boto3', 'pyarrow', 'pyiceberg', 'obstore', 'duckdb'"
    code = f"import firn, sys; firn.Producer; sys.exit(str([m for m in ({heavy}) if m in sys.modules] or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def starts(ingress: Ingress) -> list[int]:
    return [int(event["source"]["sequence"].strip("[]").split(",")[0]) for event in ingress.events]


def test_a_later_producer_wins_in_one_process_though_the_clock_goes_back(ingress: Ingress) -> None:
    for second in (1700000000.0, 1600000000.0, 1600000001.0, 1700000001.0):
        with firn.Producer("shop", url=ingress.url, clock=lambda at=second: at) as shop:
            shop.update("orders", {"id": 1, "at": second})
    assert starts(ingress) == [1700000000000, 1700000000001, 1700000000002, 1700000001000]


def test_a_producer_with_a_state_wins_over_earlier_runs_though_the_clock_goes_back(
    ingress: Ingress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second in (1700000000.0, 1600000000.0, 1600000000.0):
        monkeypatch.setattr("firn.producer._started", {})  # as a process that has just begun
        with firn.Producer("shop", url=ingress.url, state=tmp_path / "shop", clock=lambda at=second: at) as shop:
            shop.update("orders", {"id": 1, "at": second})
    assert starts(ingress) == [1700000000000, 1700000000001, 1700000000002]
    assert [one.name for one in tmp_path.iterdir()] == ["shop"]


@pytest.mark.parametrize(("text", "said"), [("", "can't be read"), ("soon", "can't be read")])
def test_a_state_that_is_broken_is_said_and_not_taken_for_none(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "shop").write_text(text)
    with pytest.raises(ConfigError, match=said):
        firn.Producer("shop", state=tmp_path / "shop")
    with pytest.raises(ConfigError, match="can't be written"):
        firn.Producer("shop", state=tmp_path / "nowhere" / "shop")
