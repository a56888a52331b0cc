"""`views:` of firn.yaml; every problem is noted. What else the SQL may say, firn_sql.configured checks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain, islice
from typing import Final, Literal

from firn.config import quantities
from firn.config.maintenance import Care
from firn.config.model import StreamConfig, TableRule
from firn.config.modes import VIEW
from firn.config.names import TableName, may_fill
from firn.config.problems import Section, shown
from firn.config.shared_tables import Placed, target_text
from firn.config.sql_text import SqlRefused, Token, tables_in
from firn.config.table_rules_reader import read_sql_table, unfit_names
from firn.config.view_homes import joined
from firn.config.views import View
from firn.config.yaml_tree import Scalar

Refresh = Literal["incremental", "full"]
KEYS: Final = (
    "sql", "every", "refresh", "partition_by", "write", "bloom", "compression", "compression_level",
    "target_file_size", "properties", "format", "care",
)  # fmt: skip
MOST: Final = 1_000
MOST_SOURCES: Final = 40
_MOST_COMPARED: Final = 2_000  # names, for one that is like a table that is not there
_MOST_TIMES: Final = 100  # as many as are shown
_MOST_SHOWN: Final = 8  # views of a circle
_MOVED: Final = {
    "to": "is not a setting: a view is the table by its own name; leave the line out",
    "mode": "is not a setting: how a view is kept says refresh: incremental or full",
    "key": "is not a setting: the rows of a view are told apart by what its SQL reads; leave the line out",
    "query": "is not a setting; write sql",
    "from": "is in the SQL; write sql: SELECT … FROM namespace.table",
    "schedule": "is not a setting; write every: 60s, or leave it out for each cut",
}
_EXAMPLE: Final = "write SELECT … FROM namespace.table"
_NAMELESS: Final = TableName("views", "nameless")
_Sources = Mapping[TableName, Token]


def read_views(
    section: Section, streams: Mapping[str, StreamConfig], placed: Sequence[Placed], care: Care
) -> dict[str, StreamConfig]:
    """The streams, each with the views at home there: the first stream that may feed a table that a view reads, also by
    way of other views, refreshes it, and with it the views that read each other (view_homes.py).

    placed  the rules of all targets of streams
    """
    if len(section.names) > MOST:
        text = (
            f"has {len(section.names):,} entries, and {MOST:,} are the most; write fewer views, or a second deployment"
        )
        section.problems.add(section.line, section.path, text)
        return dict(streams)
    named: dict[str, TableName] = {}
    read: dict[TableName, _Sources] = {}
    views: dict[TableName, View] = {}
    for name in section.names:
        table, one = _table(name, section), section.section(name)
        one.allow_only(KEYS, _MOVED)
        sources = _sources(one)
        view = _view(table or _NAMELESS, one, tuple(sources), care)
        if table is not None:
            named[name] = table
            if sources:
                read[table], views[table] = sources, view
    _check_names(named, section, streams, placed)
    feeds = _Feeds(streams)
    everything = frozenset(named.values())
    for table, sources in read.items():
        for source, token in sources.items():
            if source not in everything and feeds.first(source) is None:
                instead = feeds.instead(source, everything)
                why = token.refuse(f"no rule, pipeline or view makes the table {shown(str(source))}", instead)
                section.section(str(table)).note("sql", str(why))
    homes: dict[TableName, int] = {}
    ordered = list(_ordered(read, section))
    for table in ordered:
        every = (homes[one] if one in homes else feeds.first(one) for one in read[table])
        home = min((one for one in every if one is not None), default=None)
        if home is not None:
            homes[table] = home
    homes, found = joined(homes, read), dict[int, list[View]]()
    for table in ordered:
        if table in homes:
            found.setdefault(homes[table], []).append(views[table])
    return {name: replace(one, views=tuple(found.get(i, ()))) for i, (name, one) in enumerate(streams.items())}


def _table(name: str, section: Section) -> TableName | None:
    if strange := next((one for one in "{}*" if one in name), None):
        section.note(name, f"holds {strange}, and a view is one table; write namespace.table")
        return None
    if name.count(".") != 1:
        dotted = "names no namespace" if "." not in name else "has more than one dot"
        section.note(name, f"{dotted}; write namespace.table, {_with_namespace(name)} for example")
        return None
    try:
        table = TableName.parse(name)
    except ValueError as error:
        section.note(name, str(error))
        return None
    for why in () if section.problems.published else unfit_names(name, *table.identifier, VIEW):
        section.note(name, why)
    return table


def _with_namespace(name: str) -> str:
    return "views." + (re.sub(r"[^a-z0-9_]+", "_", name.lower()[:60]).strip("_") or "revenue")


def _sources(section: Section) -> _Sources:
    """The tables that a view's SQL names, each with where; none where it can't be read, which is noted."""
    if (sql := section.text("sql", "SELECT … FROM namespace.table")) is None:
        if not section.has("sql"):
            section.note("sql", f"is missing; {_EXAMPLE}")
        return {}
    found: dict[TableName, Token] = {}
    try:
        for parts, token in tables_in(sql):
            try:
                found[TableName(*parts)] = token
            except ValueError as error:
                raise token.refuse(str(error), _EXAMPLE) from error
        names: dict[str, TableName] = {}
        for table, token in found.items():
            if (other := names.setdefault(str(table).lower(), table)) != table:
                why = f"{shown(str(table))} and {shown(str(other))} are one name to SQL"
                raise token.refuse(why, "write a view over each, and read one of those")
        if len(found) > MOST_SOURCES:
            token = list(found.values())[MOST_SOURCES]
            why = f"it reads {len(found):,} tables, and {MOST_SOURCES} are the most"
            raise token.refuse(why, "write a view over some of them, and read that")
    except SqlRefused as refused:
        section.note("sql", str(refused))
        return {}
    return found


def _view(table: TableName, section: Section, sources: tuple[TableName, ...], care: Care) -> View:
    rule = read_sql_table(section, care, str(table), str(table), VIEW)
    if rule.bloom == "key":
        section.note("bloom", "key says nothing of a view, which has none; write bloom: [order_id]")
    every = section.parsed("every", quantities.seconds_or_none, -1, "60s")
    refresh: Refresh = section.choice("refresh", Refresh, "way to refresh", "incremental")
    sql = section.node("sql")
    text = sql.text if isinstance(sql, Scalar) else ""
    view = View(table, text, sources, rule, max(0, every), refresh == "full", section.line_of("sql"))
    if view.by_clock and (every == 0 or not section.has("every")):
        how = "is 0" if section.has("every") else "is missing"
        why = f"{how}, and the SQL asks for the time: its rows come and go though nothing changes"
        section.note("every", f"{why}; write how often a job looks at that, every: 1h for example")
    return view


def _check_names(
    named: Mapping[str, TableName], section: Section, streams: Mapping[str, StreamConfig], placed: Sequence[Placed]
) -> None:
    """Notes views that something else may fill, or that differ from it by case alone."""
    taken: dict[str, Placed] = {}
    patterns: list[tuple[str, Placed]] = []
    for one in placed:
        if one.rule.ignore or not one.rule.to:
            continue
        text = target_text(one.rule)
        if "{" in text:
            patterns.append((text, one))
        else:
            taken.setdefault(text.lower(), one)
    views: dict[str, str] = {}
    for name, table in named.items():
        other = taken.get(name.lower())
        twin = views.setdefault(name.lower(), name)
        if other is not None:
            same = "is the target" if target_text(other.rule) == name else "is but for its capitals the target"
            section.note(name, f"{same} of {other.field} on line {other.line}; call the view otherwise")
        elif twin != name:
            line = section.line_of(twin)
            why = "and some catalogs keep names in lower case"
            section.note(name, f"is but for its capitals the view of line {line}, {why}; call it otherwise")
        for text, one in patterns:
            if not may_fill(text, name):
                continue
            source = _source_of(one.rule, table)
            if source is not None and streams[one.stream].rule_for(source) is not one.rule:
                continue
            told = f"may become a target of {one.field} on line {one.line} (to: {shown(one.rule.to)})"
            instead = "write a namespace that no pattern fills, such as " + _with_namespace(table.table)
            if source is not None:
                instead += f", or a rule {source[:100]}: {{ignore: true}} beside that one"
            section.note(name, f"{told}; {instead}")
            break


def _source_of(rule: TableRule, table: TableName) -> str | None:
    """The source table of which a pattern's rule would make `table`; None if there may be several."""
    own, dot, _ = rule.source.partition(".")
    text = re.sub(r"\\\{(schema|table)\\\}", r"(?P<\1>.+)", re.escape(rule.to))
    try:
        found = re.fullmatch(text, str(table), re.DOTALL)
    except re.error:  # a placeholder that is there twice
        return None
    parts = found.groupdict() if found is not None else {}
    schema = own if dot and "*" not in own else parts.get("schema")
    return f"{schema}.{parts['table']}" if schema and "table" in parts else None


class _Feeds:
    """Which stream is the first that may feed a table."""

    def __init__(self, streams: Mapping[str, StreamConfig]) -> None:
        self._exact: dict[str, int] = {}
        self._patterns: dict[str, dict[int, list[TableRule]]] = {}
        self._by_source = [
            {rule.source: rule for rule in one.tables if not rule.is_pattern} for one in streams.values()
        ]
        self._known: dict[TableName, int | None] = {}
        self._compared = 0
        for i, stream in enumerate(streams.values()):
            for rule in stream.targets:
                if "{" in (to := target_text(rule)):
                    self._patterns.setdefault(to, {}).setdefault(i, []).append(rule)
                else:
                    self._exact.setdefault(to, i)

    def first(self, table: TableName) -> int | None:
        """The number of the stream; None if there is none."""
        if table not in self._known:
            name = str(table)
            of_patterns = (
                i for to, some in self._patterns.items() if may_fill(to, name)
                for i, rules in some.items() if self._may_feed(i, rules, table)
            )  # fmt: skip
            exact = [self._exact[name]] if name in self._exact else []
            self._known[table] = min(chain(exact, of_patterns), default=None)
        return self._known[table]

    def _may_feed(self, stream: int, rules: Sequence[TableRule], table: TableName) -> bool:
        """Whether one of these rules of a stream, whose pattern the table fits, gets it from a source table that no
        rule of its own takes or leaves out."""
        own = self._by_source[stream]
        return len(rules) > _MOST_TIMES or any(own.get(_source_of(rule, table) or "", rule) is rule for rule in rules)

    def instead(self, table: TableName, views: frozenset[TableName]) -> str:
        """What to write in place of a table that nothing feeds."""
        self._compared += 1
        if self._compared > _MOST_TIMES:
            return "write one that is there, or a rule for it"
        names = list(dict.fromkeys((*map(str, views), *self._exact)))
        near = [one for one in names if one.lower() == str(table).lower()]
        start = f"{table.namespace}."
        names.sort(key=lambda one: (not one.startswith(start), one))
        near = near or get_close_matches(str(table), names[:_MOST_COMPARED], 1, 0.6)
        if near:
            return f"write {near[0][:100]}"
        few = ", ".join(one[:60] for one in islice(chain(names, self._patterns), 3))
        return f"write one that is there ({few}), or a rule for it" if few else "write a rule for it"


def _ordered(read: Mapping[TableName, _Sources], section: Section) -> Iterator[TableName]:
    """The views, each after those that it reads. Notes those that read themselves, by way of others too."""
    done: set[TableName] = set()
    for first in read:
        if first in done:
            continue
        path = {first: iter(read[first])}
        while path:
            table = next(reversed(path))
            source = next(path[table], None)
            if source is None:
                del path[table]
                done.add(table)
                yield table
            elif source in path:
                circle = [*path][[*path].index(source) :]
                token = read[table][source]
                why = "it reads itself" if len(circle) == 1 else f"it reads itself: {_circle(circle)}"
                instead = "take this one out of FROM, or write a third view that both read"
                section.section(str(table)).note("sql", str(token.refuse(why, instead)))
            elif source in read and source not in done:
                path[source] = iter(read[source])


def _circle(tables: Sequence[TableName]) -> str:
    names = [str(one)[:60] for one in (*tables, tables[0])]
    if len(names) > _MOST_SHOWN:
        names[_MOST_SHOWN // 2 : -_MOST_SHOWN // 2] = [f"({len(names) - _MOST_SHOWN:,} more)"]
    return " -> ".join(names)
