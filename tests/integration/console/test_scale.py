"""Long lists: 1,000 tables, 10,000 columns, 50,000 dead letters, 100,000 snapshots. What is in sight is drawn, and no
more; `make console-lighthouse` measures how quickly."""

from typing import Any

from tests.integration.console.conftest import Console
from tests.integration.console.example_answers import AT, columns, letters, point, result, tables, timeline
from tests.integration.console.stand_in import StandIn

DRAWN = "document.querySelectorAll('.sheet tbody tr').length"


def paged(list_name: str, rows: list[Any], **more: Any) -> Any:
    """Answers a list by pages: the cursor is the first row's number."""

    def answer(fields: dict[str, str], _body: bytes) -> Any:
        like = fields.get("like", "")
        found = [one for one in rows if not like or like in str(one.get("table") or one.get("name"))]
        first, limit = int(fields.get("cursor", 0)), int(fields.get("limit", 100))
        following = str(first + limit) if first + limit < len(found) else None
        return {list_name: found[first : first + limit], "next": following, "total": len(found), **more}

    return answer


def struct(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def many_tables(number: int = 1_000) -> Any:
    return paged("tables", [struct(tables.tables[0]) | {"table": f"big.table_{n:04d}"} for n in range(number)])


def many_letters(number: int = 50_000) -> Any:
    one, counted = struct(letters.letters[0]), struct(letters.counts[0])
    rows = [one | {"row": n, "message": f"letter {n}"} for n in range(number)]
    return paged(
        "letters", rows, counts=[counted | {"waiting": number}], counted_objects=1, objects=1, all_waiting=number
    )


def many_points(number: int = 500) -> dict[str, Any]:
    made = [
        point | {"snapshots": 200, "operation": None, "first": f"1{n:018d}", "last": f"2{n:018d}", "to": AT}
        for n in range(number)
    ]
    return timeline | {"snapshots": 200 * number, "points": made}


def test_a_thousand_tables_are_listed_found_and_walked(console: Console, stand_in: StandIn) -> None:
    stand_in.answers["console/tables"] = many_tables()
    page = console.open("tables", "Tables")
    page.get_by_text("1,000 tables").wait_for()
    assert page.evaluate(DRAWN) < 80
    sheet = page.get_by_role("region", name="Tables, 1,000 rows")
    assert sheet.locator("table").get_attribute("aria-rowcount") == "1001"
    sheet.focus()
    page.keyboard.press("End")
    page.get_by_role("link", name="big.table_0999").wait_for()
    page.get_by_label("Find").fill("table_07")
    page.get_by_text("100 tables").wait_for()
    page.get_by_role("link", name="big.table_0700").wait_for()


def test_fifty_thousand_letters_are_walked_by_keys_and_to_the_end(console: Console, stand_in: StandIn) -> None:
    stand_in.answers["console/dead-letters"] = many_letters()
    page = console.open("dead-letters", "Dead letters")
    sheet = page.get_by_role("region", name="Dead letters, 50,000 rows")
    sheet.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.locator("tr.chosen").get_by_text("letter 1", exact=True).wait_for()
    assert page.evaluate(DRAWN) < 80
    sheet.evaluate("one => one.scrollTop = 3000 * 30")
    page.get_by_text("letter 3000", exact=True).wait_for()
    assert page.evaluate(DRAWN) < 80


def test_a_table_of_ten_thousand_columns_shows_some_at_a_time(console: Console, stand_in: StandIn) -> None:
    names = [f"c{n:05d}" for n in range(10_000)]
    stand_in.answers["tables/[^/]+/schema"] = {
        "table": "big.wide",
        "key": ["c00000"],
        "columns": [{"name": one, "type": "long"} for one in names],
    }
    one = columns["columns"][1]
    stand_in.answers["tables/[^/]+/columns"] = paged(
        "columns", [one | {"id": n, "name": name} for n, name in enumerate(names)], key=[], schema_id=0, partition=[]
    )
    wide = [{"name": name, "type": "int64"} for name in names]
    stand_in.answers["query"] = {**result, "columns": wide, "rows": [{name: n for n, name in enumerate(names)}] * 3}
    page = console.open("tables/big.wide", "big.wide")
    page.get_by_text("columns 1 to 40 of 10,000").wait_for()
    page.get_by_role("button", name="Next columns").click()
    page.get_by_text("columns 41 to 80 of 10,000").wait_for()
    page.goto(f"{console.url}/console/#/tables/big.wide?view=columns")
    page.get_by_text("10,000 columns").wait_for()
    assert page.evaluate(DRAWN) < 80
    page.goto(f"{console.url}/console/#/query?sql=SELECT")
    page.get_by_role("button", name="Run").click()
    sheet = page.get_by_role("region", name="Result, 3 rows")
    assert sheet.locator("th").count() < 60
    sheet.evaluate("one => one.scrollLeft = one.scrollWidth")
    page.get_by_role("columnheader", name="c09999").wait_for()


def test_a_hundred_thousand_snapshots_are_one_slider_and_can_be_looked_into(
    console: Console, stand_in: StandIn
) -> None:
    stand_in.answers["tables/[^/]+/timeline"] = many_points()
    page = console.open("tables/shop.orders?view=time", "shop.orders")
    page.get_by_text("100,000 snapshots").wait_for()
    assert page.locator(".timeline path").count() == 2
    page.get_by_role("slider", name="Moment").focus()
    page.keyboard.press("Home")
    page.get_by_role("button", name="Zoom into these 200 snapshots").click()
    page.get_by_role("button", name="Show all of time").wait_for()
    assert any(f"from=1{0:018d}&to=2{0:018d}" in path for _, path, _, _ in stand_in.asked)
