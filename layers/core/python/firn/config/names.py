"""Names of Iceberg tables: parsed, quoted and turned into paths here and nowhere else."""

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

# What may stand in a path as it is. Lower case only: some file systems can't tell `Orders` from `orders`.
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_-]{0,62}")
# A plain name that looks like a slug with its hash is hashed too, so that no two names share a slug.
_HASHED = re.compile(r".*-[0-9a-f]{10}")
_NOT_SAFE = re.compile(r"[^a-z0-9_]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


FACTS: Final = "__deletes"
"""What the table of a table's deletes is called after it; one that a rebuild in place made also bears its number."""
CHECK: Final = "__check"
"""What the table that a check of a table fills and drops is called after it."""
RETYPED: Final = "__firn_new"
"""What the column is called after a column whose values are just rewritten in another type."""
OWN: Final = "_firn_"
"""What the names of Firn's own columns begin with."""
ICEBERGS: Final = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
"""What Iceberg's metadata columns are called: Spark can't read them of a table that has a column of such a name, and
without them no rows can be found, rewritten or updated. https://iceberg.apache.org/docs/latest/spark-queries/"""
CHANGES: Final = frozenset({"_change", "_before", "_snapshot", "_committed_at"})
"""What the changes of a table have beside its columns."""
_FACTS = re.compile(rf"(?P<owner>.+){FACTS}(_\d+_[0-9a-f]{{8}})?", re.DOTALL)
# Some catalogs keep names in lower case.
_RESERVED = re.compile(rf"{OWN}.*|.+({FACTS}(_\d+_[0-9a-f]{{8}})?|{CHECK}|{RETYPED})", re.DOTALL | re.IGNORECASE)


def owner(table: str) -> str:
    """The table whose deletes `table` holds, by its name; itself if it is no such table."""
    found = _FACTS.fullmatch(table)
    return found["owner"] if found else table


def is_reserved(table: str) -> bool:
    """Whether Firn may make a table of this name for itself, beside the table whose name it begins with: no table of a
    source or of a user may have it, or the two would be taken for each other."""
    return _RESERVED.fullmatch(table) is not None


def too_long(namespace: str, table: str, *, with_facts: bool) -> str | None:
    """Why catalogs can't take a table's name, None if they can. `with_facts`: nor that of the table of its deletes."""
    beside = len(FACTS) if with_facts else 0
    for what, name, most in (("namespace", namespace, MOST_BYTES), ("table", table, MOST_BYTES - beside)):
        if (size := len(name.encode("utf-8", "surrogatepass"))) > most:
            return f"a {what}'s name has at most {most} bytes, and {name[:30]!r}… has {size}"
    return None


@lru_cache(maxsize=4_096)
def starred(pattern: str) -> re.Pattern[str]:
    """Names that fit a pattern in which `*` stands for any run of characters, dots included."""
    # Runs of stars are one star: `a**b` must not make the matching quadratic twice over.
    return re.compile(".*".join(re.escape(part) for part in re.split(r"\*+", pattern)), re.DOTALL)


def may_fill(template: str, name: str) -> bool:
    """Whether a name may be what becomes of a rule's `to`, or of a part of it, with some {schema} and {table}."""
    if "{" not in template:  # most: a console asks a thousand tables of a thousand rules, and a pattern costs 2 µs
        return template == name
    if not name.startswith(template[: template.index("{")]):
        return False
    pattern = ".+".join(map(re.escape, re.split(r"\{schema\}|\{table\}", template)))
    return re.fullmatch(pattern, name, re.DOTALL) is not None


def is_own_column(name: str) -> bool:
    """Whether a column of this name is Firn's."""
    return name.startswith(OWN) or name.endswith(RETYPED)


def is_left_out(name: str) -> bool:
    """Whether a source's column of this name is left out: it is Firn's own, or one that Iceberg keeps for itself."""
    return is_own_column(name) or name in ICEBERGS


RESERVED_NAMES: Final = f"names that begin with {OWN} or end in {FACTS}, {CHECK} or {RETYPED} are Firn's own"


MOST_BYTES: Final = 255
"""Of a name, in UTF-8: Glue takes no longer one, and SQL catalogs have no room for it."""


def quoted(identifier: str) -> str:
    """One identifier for Spark SQL, in backquotes; a backquote inside is doubled."""
    return "`" + identifier.replace("`", "``") + "`"


def slug(name: str) -> str:
    """`name` as one path segment of at most 63 characters of `a-z 0-9 _ -`.

    Plain names stay as they are; all others get their plain characters and the first 10 hex digits of their SHA-256,
    so that different names never share a path: `orders` -> `orders`, `Mixed Case` -> `mixed_case-68a1f14a24`.
    """
    if _PLAIN.fullmatch(name) and not _HASHED.fullmatch(name):
        return name
    words = _NOT_SAFE.sub("_", name.lower()).strip("_")[:50] or "t"
    return f"{words}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


@dataclass(frozen=True, order=True)
class TableName:
    """An Iceberg table: one namespace level, and a table whose name may hold any printable character, dots included."""

    namespace: str
    table: str

    def __post_init__(self) -> None:
        """Raises ValueError for a part that is empty or holds control characters, or a namespace that holds a dot."""
        if not self.namespace or not self.table:
            raise ValueError(f"{self.namespace}.{self.table} is not a table name: write namespace.table")
        if "." in self.namespace:
            raise ValueError(f"the namespace {self.namespace!r} holds a dot; namespaces have one level")
        if _CONTROL.search(self.namespace + self.table):
            raise ValueError(f"the table name {str(self)!r} holds control characters")

    @classmethod
    def parse(cls, text: str) -> "TableName":
        """`shop.orders` -> TableName("shop", "orders"). The first dot parts them, so `shop.a.b` is table `a.b`.

        The inverse of `str()`. Raises ValueError if there is no dot or a part is empty.
        """
        namespace, dot, table = text.partition(".")
        if not dot:
            raise ValueError(f"{text!r} names no namespace: write namespace.table")
        return cls(namespace, table)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.table}"

    @property
    def quoted(self) -> str:
        """For Spark SQL, without the catalog: `` `shop`.`orders` ``."""
        return f"{quoted(self.namespace)}.{quoted(self.table)}"

    @property
    def identifier(self) -> tuple[str, str]:
        """For PyIceberg: ("shop", "orders")."""
        return self.namespace, self.table

    @property
    def slug(self) -> str:
        """The table's place below the warehouse: `shop/orders`. Different tables never share one."""
        return f"{slug(self.namespace)}/{slug(self.table)}"
