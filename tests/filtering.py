"""Random rows and random filters on them, as text and as Python: what a filtered read must give."""

import random
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

Fits = Callable[[dict[str, Any]], bool]

NAMES = ("n", "m", "x", "s", "d", "at")


def row(dice: random.Random, number: int) -> dict[str, Any]:
    """A row of the columns NAMES, nulls and NaN among them: they rise with `number` (0 to 599) or are random."""
    return {
        "n": dice.choice([number, dice.randrange(50), None]),
        "m": dice.randrange(40),
        "x": dice.choice([float("nan"), float(number // 100), 1.0]),
        "s": dice.choice([f"k{dice.randrange(300)}", "", None]),
        "d": date(2026, 1, 1) + timedelta(number // 30),
        "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=dice.randrange(50)),
    }


OPERATORS = {
    "=": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def _predicate(dice: random.Random) -> tuple[str, Fits]:
    # Null fits no predicate but `is null`.
    name = dice.choice(NAMES)
    how = dice.choice([*OPERATORS, "=", "=", "in", "is null", "is not null"])
    if how.startswith("is"):
        return f"{name} {how}", (lambda row: (row[name] is None) is (how == "is null"))

    def value() -> Any:
        return {
            "n": dice.choice([dice.randrange(700), 2**40, -5]),
            "m": dice.randrange(50),
            "x": float(dice.randrange(7)),
            "s": dice.choice([f"k{dice.randrange(320)}", "", "nobody"]),
            "d": date(2026, 1, 1) + timedelta(dice.randrange(-2, 24)),
            "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=dice.randrange(-2, 55)),
        }[name]

    def said(one: Any) -> str:
        return repr(one) if isinstance(one, int | float) else f"'{one.isoformat() if hasattr(one, 'year') else one}'"

    if how == "in":
        some = [value() for _ in range(dice.randrange(2, 7))]
        return f"{name} in ({', '.join(map(said, some))})", (lambda row: row[name] is not None and row[name] in some)
    one = value()
    return f"{name} {how} {said(one)}", (lambda row: row[name] is not None and OPERATORS[how](row[name], one))


def filters(dice: random.Random, depth: int = 2) -> tuple[str, Fits]:
    """A filter as text, and as a function of a row."""
    kind = dice.choice(["and", "or", "leaf"]) if depth else "leaf"
    if kind == "leaf":
        return _predicate(dice)
    (left, fits), (right, also) = filters(dice, depth - 1), filters(dice, depth - 1)
    if kind == "and":
        return f"({left}) and ({right})", (lambda row: fits(row) and also(row))
    return f"({left}) or ({right})", (lambda row: fits(row) or also(row))


def seen(found: Iterable[dict[str, Any]]) -> list[str]:
    """Rows to compare: sorted, a NaN equal to a NaN."""
    return sorted(repr([_normal(one[name]) for name in NAMES]) for one in found)


def _normal(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value
