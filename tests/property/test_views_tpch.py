"""TPC-H's queries as views: small tables of its shape, and changes as its refresh functions make them."""

from collections.abc import Iterator

import duckdb
import pytest

from firn_sql.views.planner import SourceTable, plan
from firn_sql.views.refresh import AFTER, BEFORE, NOTHING, Refresh, Within
from firn_sql.views.sums import with_sums
from tests.property.test_views import bag
from tests.soak import few_cases, times

ORDERS = 1500
CUSTOMERS = 150
MADE = {
    "region": ("SELECT i AS r_regionkey, ['AFRICA', 'ASIA', 'EUROPE'][i + 1] AS r_name FROM range(3) t(i)", 1),
    "nation": ("SELECT i AS n_nationkey, 'N' || i AS n_name, i % 3 AS n_regionkey FROM range(12) t(i)", 1),
    "supplier": ("SELECT i AS s_suppkey, i % 12 AS s_nationkey FROM range(20) t(i)", 1),
    "customer": (
        "SELECT i AS c_custkey, 'C' || i AS c_name, 'a' || i AS c_address, i % 12 AS c_nationkey, '0' || i AS c_phone, "
        "(i * 37 % 1000)::DECIMAL(12,2) AS c_acctbal, ['BUILDING', 'MACHINERY'][1 + i % 2] AS c_mktsegment, "
        f"'c' || i AS c_comment FROM range({CUSTOMERS}) t(i)", 1,
    ),
    "part": (
        "SELECT i AS p_partkey, ['Brand#12', 'Brand#23'][1 + i % 2] AS p_brand, "
        "['PROMO A', 'ECONOMY B'][1 + i % 2] AS p_type, 1 + i % 12 AS p_size, "
        "['SM CASE', 'MED BAG', 'LG BOX'][1 + i % 3] AS p_container FROM range(60) t(i)", 1,
    ),
    "orders": (
        f"SELECT i AS o_orderkey, i * 7 % {CUSTOMERS} AS o_custkey, (i * 91 % 5000)::DECIMAL(12,2) AS o_totalprice, "
        "DATE '1993-01-01' + (i * 13 % 1000)::INTEGER AS o_orderdate, ['1-URGENT', '2-HIGH', '5-LOW'][1 + i % 3] AS "
        f"o_orderpriority, 0 AS o_shippriority FROM range({ORDERS}) t(i)", 1,
    ),
    "lineitem": (
        "SELECT i // 4 AS l_orderkey, i % 4 AS l_linenumber, i * 11 % 60 AS l_partkey, i % 20 AS l_suppkey, "
        "(1 + i * 17 % 95)::DECIMAL(12,2) AS l_quantity, (900 + i * 29 % 1000)::DECIMAL(12,2) AS l_extendedprice, "
        "(i % 11 / 100)::DECIMAL(12,2) AS l_discount, (i % 9 / 100)::DECIMAL(12,2) AS l_tax, "
        "['R', 'A', 'N'][1 + i % 3] AS l_returnflag, ['O', 'F'][1 + i % 2] AS l_linestatus, "
        "DATE '1993-02-01' + (i * 7 % 1100)::INTEGER AS l_shipdate, "
        "DATE '1993-02-01' + (i * 7 % 1100 + i % 6)::INTEGER AS l_commitdate, "
        "DATE '1993-02-04' + (i * 7 % 1100)::INTEGER AS l_receiptdate, "
        "['DELIVER IN PERSON', 'NONE'][1 + i % 2] AS l_shipinstruct, ['AIR', 'MAIL', 'SHIP'][1 + i % 3] AS "
        f"l_shipmode FROM range({ORDERS * 4}) t(i)", 2,
    ),
}  # fmt: skip
QUERIES = {
    1: (
        "select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price, "
        "sum(l_extendedprice * (1 - l_discount)) as sum_disc_price, sum(l_extendedprice * (1 - l_discount) * (1 + "
        "l_tax)) as sum_charge, avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price, avg(l_discount) as "
        "avg_disc, count(*) as count_order from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day "
        "group by l_returnflag, l_linestatus"
    ),
    3: (
        "select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority from "
        "customer, orders, lineitem where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = "
        "o_orderkey and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15' group by l_orderkey, "
        "o_orderdate, o_shippriority order by revenue desc, o_orderdate, l_orderkey limit 10"
    ),
    4: (
        "select o_orderpriority, count(*) as order_count from orders where o_orderdate >= date '1993-07-01' and "
        "o_orderdate < date '1993-07-01' + interval '3' month and exists (select * from lineitem where l_orderkey = "
        "o_orderkey and l_commitdate < l_receiptdate) group by o_orderpriority"
    ),
    5: (
        "select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue from customer, orders, lineitem, supplier, "
        "nation, region where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey and "
        "c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'ASIA' "
        "and o_orderdate >= date '1994-01-01' and o_orderdate < date '1994-01-01' + interval '1' year group by n_name"
    ),
    6: (
        "select sum(l_extendedprice * l_discount) as revenue from lineitem where l_shipdate >= date '1994-01-01' and "
        "l_shipdate < date '1994-01-01' + interval '1' year and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and "
        "l_quantity < 24"
    ),
    10: (
        "select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name, c_address, "
        "c_phone, c_comment from customer, orders, lineitem, nation where c_custkey = o_custkey and l_orderkey = "
        "o_orderkey and o_orderdate >= date '1993-10-01' and o_orderdate < date '1993-10-01' + interval '3' month and "
        "l_returnflag = 'R' and c_nationkey = n_nationkey group by c_custkey, c_name, c_acctbal, c_phone, n_name, "
        "c_address, c_comment order by revenue desc, c_custkey limit 20"
    ),
    12: (
        "select l_shipmode, sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 "
        "end) as high_line_count, sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 "
        "else 0 end) as low_line_count from orders, lineitem where o_orderkey = l_orderkey and l_shipmode in ('MAIL', "
        "'SHIP') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate and l_receiptdate >= date "
        "'1994-01-01' and l_receiptdate < date '1994-01-01' + interval '1' year group by l_shipmode"
    ),
    14: (
        "select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end) / "
        "sum(l_extendedprice * (1 - l_discount)) as promo_revenue from lineitem, part where l_partkey = p_partkey and "
        "l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-09-01' + interval '1' month"
    ),
    18: (
        "select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) as q from customer, orders, "
        "lineitem where o_orderkey in (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > "
        "300) and c_custkey = o_custkey and o_orderkey = l_orderkey group by c_name, c_custkey, o_orderkey, "
        "o_orderdate, o_totalprice order by o_totalprice desc, o_orderdate, o_orderkey limit 100"
    ),
    19: (
        "select sum(l_extendedprice* (1 - l_discount)) as revenue from lineitem, part where ( p_partkey = l_partkey "
        "and p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') and l_quantity >= 1 "
        "and l_quantity <= 1 + 10 and p_size between 1 and 5 and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct "
        "= 'DELIVER IN PERSON') or ( p_partkey = l_partkey and p_brand = 'Brand#23' and p_container in ('MED BAG', "
        "'MED BOX', 'MED PKG', 'MED PACK') and l_quantity >= 10 and l_quantity <= 10 + 10 and p_size between 1 and 10 "
        "and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')"
    ),
}


class Tables:
    """The sources of a refresh: each table before and after."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.tables: dict[str, SourceTable] = {}
        self._number = 0
        for name, (sql, key) in MADE.items():
            connection.execute(f"CREATE TABLE {name}_1 AS {sql}")
            connection.execute(f"CREATE TABLE {name}_0 AS FROM {name}_1")
            found = connection.sql(f"FROM {name}_1")
            kinds = dict(zip(found.columns, map(str, found.types), strict=True))
            self.tables[name] = SourceTable(kinds, tuple(found.columns[:key]))

    def change(self) -> None:
        """What was after is before; a few orders come with their lines, some go, and some rows change."""
        run, number = self.connection.execute, self._number
        self._number += 1
        for name in ("orders", "lineitem", "customer"):
            run(f"CREATE OR REPLACE TABLE {name}_0 AS FROM {name}_1")
        first = ORDERS + number * 10
        for table, columns in (
            ("orders", f"o_orderkey + {first} AS o_orderkey"),
            ("lineitem", f"l_orderkey + {first} AS l_orderkey, l_quantity + 40 AS l_quantity"),
        ):
            run(f"INSERT INTO {table}_1 SELECT * REPLACE ({columns}) FROM {table}_1 WHERE {table[0]}_orderkey < 10")
        for table, column in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
            run(f"DELETE FROM {table}_1 WHERE {column} BETWEEN {100 + number * 10} AND {109 + number * 10}")
        run(f"UPDATE lineitem_1 SET l_shipdate = l_shipdate + 30, l_discount = 0.06 WHERE l_orderkey % 97 = {number}")
        run(f"UPDATE orders_1 SET o_custkey = (o_custkey + 1) % {CUSTOMERS} WHERE o_orderkey % 89 = {number}")
        run(f"UPDATE customer_1 SET c_nationkey = (c_nationkey + 5) % 12 WHERE c_custkey % 41 = {number}")

    def rows(self, source: str, cut: int, columns: list[str], within: Within | None) -> str:
        rows = f"SELECT {', '.join(columns)} FROM {source}_{min(cut, AFTER)}{' WHERE FALSE' * (cut == NOTHING)}"
        return rows if within is None else within.semi_join(rows, columns)

    def changes(self, source: str, columns: list[str]) -> tuple[str, str] | None:
        before, after = (self.rows(source, cut, columns, None) for cut in (BEFORE, AFTER))
        found = f"{before} EXCEPT ALL {after}", f"{after} EXCEPT ALL {before}"
        return (
            found
            if any(self.connection.execute(f"SELECT 1 FROM ({one}) LIMIT 1").fetchone() for one in found)
            else None
        )

    def held(self, columns: list[str], within: Within) -> str:
        return within.semi_join("SELECT * FROM held", columns)

    def all_held(self, columns: list[str]) -> str:
        return f"SELECT {', '.join(columns)} FROM held"

    def count(self, source: str) -> int:
        return len(self.connection.execute(f"SELECT 1 FROM {source}_1").fetchall())


@pytest.fixture
def tables() -> Iterator[Tables]:
    with duckdb.connect(config={"threads": 1}) as connection:
        yield Tables(connection)


@few_cases(2)
@pytest.mark.parametrize("number", QUERIES)
def test_a_query_of_tpch(number: int, tables: Tables) -> None:
    connection = tables.connection
    found, _ = with_sums(plan(QUERIES[number], tables.tables), tables.tables, connection.cursor())
    stored = ", ".join(found.stored)
    first = Refresh(connection, found, tables)
    connection.execute(f"CREATE OR REPLACE TABLE held AS SELECT {stored} FROM ({first.whole(AFTER)})")
    changed = 0
    for _ in range(times(8, 50)):
        tables.change()
        refresh = Refresh(connection, found, tables)
        delta = refresh.delta()
        if delta is not None:
            changed += 1
            rest = f"SELECT * FROM held EXCEPT ALL SELECT * FROM {delta.gone}"
            connection.execute(f"CREATE OR REPLACE TABLE held AS ({rest}) UNION ALL SELECT * FROM {delta.come}")
        for name in MADE:
            connection.execute(f"CREATE OR REPLACE VIEW {name} AS FROM {name}_1")
        columns = ", ".join(found.root.columns)
        assert bag(connection, f"SELECT {columns} FROM held") == bag(connection, QUERIES[number])
        refresh.close()
    assert changed
