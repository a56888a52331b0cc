"""PostgreSQL's types by OID: those of every database, and what pg_type says of the others. Pure.

The OIDs of built-in types never change (PostgreSQL's pg_type.dat). All others (enums, domains, extensions' types and
their arrays) a database gives itself, so that they must be looked up there: `LOOK_UP`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class PgType:
    """A row of pg_type. `kind`: its typtype (b base, c composite, d domain, e enum, m multirange, p pseudo, r range);
    `base`, `modifier`: of a domain; `element`: the OID of an array's elements, else 0; `delimiter`: between elements.
    """

    name: str
    kind: str = "b"
    base: int = 0
    modifier: int = -1
    element: int = 0
    delimiter: str = ","


# The columns of PgType behind the OID. An array has typlen -1 and is of category A; others have a typelem too (point),
# and two of that category are written without braces.
LOOK_UP: Final = """
SELECT oid::bigint, typname::text, typtype::text, typbasetype::bigint, typtypmod,
       CASE WHEN typcategory = 'A' AND typlen = -1 AND typname NOT IN ('int2vector', 'oidvector')
            THEN typelem::bigint ELSE 0 END, typdelim::text
FROM pg_catalog.pg_type WHERE oid = ANY(CAST(:oids AS oid[]))
"""

_NAMES: Final = {
    16: "bool", 17: "bytea", 18: "char", 19: "name", 20: "int8", 21: "int2", 23: "int4", 25: "text", 26: "oid",
    27: "tid", 28: "xid", 29: "cid", 114: "json", 142: "xml", 600: "point", 601: "lseg", 602: "path", 603: "box",
    604: "polygon", 628: "line", 650: "cidr", 700: "float4", 701: "float8", 718: "circle", 774: "macaddr8",
    790: "money", 829: "macaddr", 869: "inet", 1042: "bpchar", 1043: "varchar", 1082: "date", 1083: "time",
    1114: "timestamp", 1184: "timestamptz", 1186: "interval", 1266: "timetz", 1560: "bit", 1562: "varbit",
    1700: "numeric", 2950: "uuid", 3220: "pg_lsn", 3614: "tsvector", 3615: "tsquery", 3802: "jsonb",
    3904: "int4range", 3906: "numrange", 3908: "tsrange", 3910: "tstzrange", 3912: "daterange", 3926: "int8range",
    4072: "jsonpath",
}  # fmt: skip
_ARRAYS: Final = {  # OID of the array -> of its elements
    1000: 16, 1001: 17, 1002: 18, 1003: 19, 1016: 20, 1005: 21, 1007: 23, 1009: 25, 1028: 26, 1010: 27, 1011: 28,
    1012: 29, 199: 114, 143: 142, 1017: 600, 1018: 601, 1019: 602, 1020: 603, 1027: 604, 629: 628, 651: 650, 1021: 700,
    1022: 701, 719: 718, 775: 774, 791: 790, 1040: 829, 1041: 869, 1014: 1042, 1015: 1043, 1182: 1082, 1183: 1083,
    1115: 1114, 1185: 1184, 1187: 1186, 1270: 1266, 1561: 1560, 1563: 1562, 1231: 1700, 2951: 2950, 3221: 3220,
    3643: 3614, 3645: 3615, 3807: 3802, 3905: 3904, 3907: 3906, 3909: 3908, 3911: 3910, 3913: 3912, 3927: 3926,
    4073: 4072,
}  # fmt: skip
BUILT_IN: Final[Mapping[int, PgType]] = MappingProxyType(
    {oid: PgType(name) for oid, name in _NAMES.items()}
    | {
        oid: PgType(f"_{_NAMES[element]}", element=element, delimiter=";" if element == 603 else ",")
        for oid, element in _ARRAYS.items()
    }
)


@dataclass(frozen=True)
class TypeCatalog:
    """The types that are known: `own` are the database's, beside BUILT_IN."""

    own: Mapping[int, PgType] = field(default_factory=dict)

    def get(self, oid: int) -> PgType | None:
        """The type, None if nobody has looked it up, or it is gone."""
        return BUILT_IN.get(oid) or self.own.get(oid)

    def lacking(self, oids: Iterable[int]) -> set[int]:
        """The OIDs to look up in order to know these: themselves, or what arrays and domains among them rest on."""
        found: set[int] = set()
        for oid in oids:
            seen: set[int] = set()
            while oid and oid not in seen:
                seen.add(oid)
                known = self.get(oid)
                if known is None:
                    found.add(oid)
                    break
                oid = known.base or known.element
        return found

    def plain(self, oid: int, modifier: int) -> tuple[PgType | None, int]:
        """The type below all domains, and the modifier that counts: the column's own, else the domain's."""
        known, steps = self.get(oid), 0
        while known is not None and known.kind == "d" and steps < 100:
            modifier = known.modifier if modifier < 0 else modifier
            known, steps = self.get(known.base), steps + 1
        return known, modifier
