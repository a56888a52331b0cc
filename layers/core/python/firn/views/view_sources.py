"""What the views of a stream read, and which streams feed it. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from firn.config.model import Config, StreamConfig
from firn.config.names import TableName
from firn.config.views import View
from firn.log.cuts import Cut
from firn.views.cut import ViewCut


@dataclass(frozen=True)
class ViewSources:
    """The views that the jobs of `stream` refresh, those that others read first; and of each table that they read, and
    that is no view of these, the streams that may feed it."""

    stream: str
    views: tuple[View, ...]
    feeders: Mapping[TableName, tuple[str, ...]]

    @property
    def streams(self) -> tuple[str, ...]:
        """All streams that may feed a table which a view reads."""
        return tuple(sorted({name for names in self.feeders.values() for name in names}))

    def views_below(self, view: View) -> list[View]:
        """The views that this one reads itself."""
        return [self._by_table[name] for name in view.sources if name in self._by_table]

    def goes_by_clock(self, view: View) -> bool:
        """Whether its rows are others as time passes, by its own SQL or by that of a view below it."""
        return view.by_clock or any(map(self.goes_by_clock, self.views_below(view)))

    def tables_below(self, view: View) -> frozenset[TableName]:
        """The tables that it reads, through other views too."""
        return self._below[view.table][0]

    def streams_below(self, view: View) -> frozenset[str]:
        """The streams that may feed a table that its rows come from."""
        return frozenset(name for table in self.tables_below(view) for name in self.feeders[table])

    def cut_of(self, view: View, newest: Mapping[str, Cut]) -> ViewCut:
        """What the view is to be of, at these cuts. Those that the same streams feed are of the same."""
        mine = {stream: newest[stream] for stream in sorted(self.streams_below(view).intersection(newest))}
        snapshots: dict[TableName, set[int]] = {}
        for cut in mine.values():
            for table, snapshot in cut.tables.items():
                snapshots.setdefault(TableName.parse(table), set()).add(snapshot)
        return ViewCut(
            {stream: cut.n for stream, cut in mine.items()},
            {table: frozenset(some) for table, some in snapshots.items()},
        )

    def digest(self, view: View, cut: ViewCut) -> str:
        """What the view's rows follow from, in short: the snapshots that it reads, and the SQL of the views between. A
        cut that changes none of them changes no view."""
        tables, queries = self._below[view.table]
        read = {str(table): sorted(cut.snapshots.get(table, ())) for table in tables}
        return hashlib.sha256(json.dumps([read, sorted(queries)], sort_keys=True).encode()).hexdigest()[:32]

    def missing(self, view: View, cut: ViewCut) -> TableName | None:
        """A table that it reads and that no cut names yet."""
        return next((name for name in sorted(self.tables_below(view)) if name not in cut.snapshots), None)

    @cached_property
    def _by_table(self) -> dict[TableName, View]:
        return {view.table: view for view in self.views}

    @cached_property
    def _below(self) -> dict[TableName, tuple[frozenset[TableName], frozenset[str]]]:
        """Of each view the tables that its rows come from, and the SQL of the views between."""
        found: dict[TableName, tuple[frozenset[TableName], frozenset[str]]] = {}
        for view in self.views:
            tables, queries = set[TableName](), set[str]()
            for name in view.sources:
                if name in self._by_table:
                    tables |= found[name][0]
                    queries |= {*found[name][1], self._by_table[name].sha}
                else:
                    tables.add(name)
            found[view.table] = frozenset(tables), frozenset(queries)
        return found


def sources_of(config: Config, stream: str) -> ViewSources | None:
    """Those of a stream; None if it has no views."""
    mine = config.streams.get(stream)
    if mine is None or not mine.views:
        return None
    views = {view.table for view in mine.views}
    read = {name for view in mine.views for name in view.sources} - views
    feeders = {name: tuple(_feeding(config.streams.values(), name)) for name in sorted(read)}
    return ViewSources(stream, mine.views, feeders)


def views_of(config: Config, stream: str) -> list[View]:
    """All views whose rows come from tables that the stream may feed, whichever stream refreshes them: those that
    others read first."""
    every = [found for name in config.streams if (found := sources_of(config, name)) is not None]
    return [view for one in every for view in one.views if stream in one.streams_below(view)]


def _feeding(streams: Iterable[StreamConfig], table: TableName) -> Iterable[str]:
    for stream in streams:
        rules = [rule for rule in stream.tables if not rule.ignore]
        rules += [one.rule for one in stream.pipelines if one.rule is not None]
        if any(rule.feeds(table) for rule in rules):
            yield stream.name
