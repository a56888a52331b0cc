"""One operator of a plan over rows, as SQL: `rows`, `left` and `right` are SELECTs, and so is what each gives."""

from collections.abc import Sequence

from firn_sql.views.algebra import (
    Filter,
    Group,
    Hops,
    Join,
    Operator,
    Plan,
    Project,
    Sessions,
    Top,
    Union,
    Window,
    moment,
)
from firn_sql.views.refresh_port import listed


def projected(node: Project, rows: str) -> str:
    """The values of each row, and its ids."""
    values = [f"({one.sql}) AS {name}" for name, one in zip(node.columns, node.values, strict=True)]
    hidden = [one for one in node.ids if one not in node.columns]
    return f"SELECT {', '.join([*values, *hidden])} FROM ({rows})"


def join(node: Join, left: str, right: str) -> str:
    """Rows of both sides that match, and what the kind of join adds."""
    equal = [f"({a.sql}) = ({b.sql})" for a, b in zip(node.left_keys, node.right_keys, strict=True)]
    on = " AND ".join([*equal, *([f"({node.condition.sql})"] if node.condition else [])])
    flagged = [
        f"(SELECT *, TRUE AS {flag} FROM ({rows}))" if flag else f"({rows})"
        for flag, rows in zip(node.flags, (left, right), strict=True)
    ]
    return f"SELECT {listed(node.every)} FROM {flagged[0]} {node.kind} JOIN {flagged[1]} ON {on}"


def grouped(node: Group, rows: str) -> str:
    """A row for each group."""
    keys = [f"({one.sql}) AS {name}" for name, one in zip(node.ids, node.keys, strict=True)]
    names = node.columns[len(keys) :]
    values = [f"{one.sql} AS {name}" for name, one in zip(names, node.aggregates, strict=True)]
    by = f" GROUP BY {', '.join(f'({one.sql})' for one in node.keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, *values])} FROM ({rows}){by}"


def summed(group: Group, touched: str, held: str, gone: str, come: str) -> str:
    """The touched groups as they are now, of sums alone: the first is how many rows a group has."""
    sums = group.columns[len(group.ids) :]
    sides = {"h": held, "g": gone, "n": come}
    joins = "".join(
        f" LEFT JOIN ({rows}) {side} ON "
        + (" AND ".join(f"{side}.{name} IS NOT DISTINCT FROM t.w{i}" for i, name in enumerate(group.ids)) or "TRUE")
        for side, rows in sides.items()
    )
    keys = [f"t.w{i} AS {name}" for i, name in enumerate(group.ids)]
    values = [
        f"coalesce(h.{one}, 0) - coalesce(g.{one}, 0) + coalesce(n.{one}, 0) AS {one}" for one in sums
    ]  # fmt: skip
    rows = f"SELECT {', '.join([*keys, *values])} FROM {touched} t{joins}"
    return f"SELECT * FROM ({rows}) WHERE {sums[0]} > 0" if group.keys else rows


def windowed(node: Window, rows: str) -> str:
    """Each row with what its functions are."""
    names = node.columns[len(node.columns) - len(node.functions) :]
    values = [f"{one.sql} AS {name}" for name, one in zip(names, node.functions, strict=True)]
    own = [one for one in node.every if one not in names]
    return f"SELECT {', '.join([*own, *values])} FROM ({rows})"


def hopped(node: Hops, rows: str) -> str:
    """Each row once for each window that it is in."""
    start, end = node.columns[-2:]
    own = [one for one in node.every if one not in (start, end)]
    there = f"SELECT {listed(own)}, {node.newest} AS firn_newest FROM ({rows}) WHERE isfinite({moment(node.time)})"
    each = f"SELECT {listed(own)}, firn_newest - {node.hop.times('firn_n.n')} AS {start} FROM ({there})"
    each += f", range({node.number}) firn_n(n)"
    each = f"SELECT *, {start} + {node.hop.times(node.number)} AS {end} FROM ({each})"
    return f"SELECT {listed(node.every)} FROM ({each})"


def in_sessions(node: Sessions, rows: str) -> str:
    """Each row with its session."""
    start, end = node.columns[-2:]
    by = [f"({one.sql})" for one in node.keys]
    each = f"PARTITION BY {', '.join(by)} ORDER BY firn_at" if by else "ORDER BY firn_at"
    of_one = f"PARTITION BY {', '.join([*by, start])}"
    rows = f"SELECT *, {moment(node.time)} AS firn_at FROM ({rows}) WHERE isfinite({moment(node.time)})"
    follows = f"firn_at <= lag(firn_at) OVER ({each}) + {node.gap.times(1)}"
    rows = f"SELECT *, CASE WHEN {follows} THEN NULL ELSE firn_at END AS firn_first FROM ({rows})"
    rows = f"SELECT *, max(firn_first) OVER ({each}) AS {start} FROM ({rows})"
    rows = f"SELECT *, max(firn_at) OVER ({of_one}) + {node.gap.times(1)} AS {end} FROM ({rows})"
    return f"SELECT {listed(node.every)} FROM ({rows})"


def top(node: Top, rows: str) -> str:
    """The first rows."""
    by = f"ORDER BY {', '.join(node.orders)} LIMIT {node.limit} OFFSET {node.offset}"
    return f"SELECT {listed(node.every)} FROM ({rows}) {by}"


def united(node: Union, parts: Sequence[str]) -> str:
    """All rows of all branches."""
    found, first = [], 1
    for number, (one, rows) in enumerate(zip(node.branches, parts, strict=True)):
        values = [f"{each} AS {name}" for name, each in zip(node.columns, one.columns, strict=True)]
        values.append(f"{number} AS {node.ids[0]}")
        values += [
            f"{each} AS {name}" for name, each in zip(node.ids[first : first + len(one.ids)], one.ids, strict=True)
        ]
        first += len(one.ids)
        found.append(f"SELECT {', '.join(values)} FROM ({rows})")
    return f"SELECT {listed(node.every)} FROM ({' UNION ALL BY NAME '.join(found)})"


def above_groups(plan: Plan, group: Group, rows: str) -> str:
    """What stands above the groups of a view, over rows of them, with Plan.stored."""
    chain: list[Operator] = []
    one = plan.root
    while one is not group:
        chain.append(one)
        one = one.inputs()[0]
    for each in reversed(chain):
        if isinstance(each, Filter):
            rows = f"SELECT * FROM ({rows}) WHERE {each.condition.sql}"
        elif isinstance(each, Project):
            values = [f"({value.sql}) AS {name}" for name, value in zip(each.columns, each.values, strict=True)]
            rows = f"SELECT *, {', '.join(values)} FROM ({rows})"
    return f"SELECT {listed(plan.stored)} FROM ({rows})"
