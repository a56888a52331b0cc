"""Which tables of a real PostgreSQL are read, and by which names; none is left out silently."""

from pathlib import Path

import pytest

from firn.backfill.postgres_connection import Session
from firn.errors import ConfigError, TerminalError
from tests.integration.backfill.in_process import Backfill


def test_partitions_are_read_one_by_one_under_the_name_of_their_table(
    server: Session, address: str, tmp_path: Path
) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    server.rows("CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    server.rows("CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (10) TO (20)")
    server.rows("INSERT INTO t SELECT n, 'v' FROM generate_series(0, 19) n")
    one = Backfill(tmp_path, address, where="id % 2 = 0")
    assert {chunk.relation for chunk in one.run().chunks} == {"public.t_1", "public.t_2"}
    assert one.images() == sorted(f'{{"id":{n},"v":"v"}}' for n in range(0, 20, 2))
    assert {row["table"] for row in one.rows()} == {"public.t"}


def test_what_the_publication_leaves_out_is_left_out(server: Session, address: str, tmp_path: Path) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v text, secret text)")
    server.rows("CREATE TABLE u (id int PRIMARY KEY)")
    server.rows("INSERT INTO t VALUES (1, 'x', 'y'), (2, 'x', 'y')")
    server.rows("CREATE PUBLICATION firn FOR TABLE t (id, v) WHERE (id > 1)")
    one = Backfill(tmp_path / "1", address, publication="firn")
    assert [table.name for table in one.run().tables] == ["public.t"]
    assert one.images() == ['{"id":2,"v":"x"}']
    with pytest.raises(ConfigError, match=r"publication firn lacks public\.u"):
        Backfill(tmp_path / "2", address, publication="firn", tables=("public.u",)).planned()
    server.rows("DROP PUBLICATION firn")


def test_partitions_are_read_by_the_names_under_which_the_publication_sends_them(
    server: Session, address: str, tmp_path: Path
) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    server.rows("CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    server.rows("INSERT INTO t VALUES (1)")
    with pytest.raises(ConfigError, match=r"public\.t_1 is a partition of public\.t: name that"):
        Backfill(tmp_path / "0", address, tables=("public.t_1",)).planned()
    server.rows("CREATE PUBLICATION firn FOR TABLE t")
    try:
        one = Backfill(tmp_path / "1", address, publication="firn")
        assert [table.name for table in one.run().tables] == ["public.t_1"]
        assert [row["table"] for row in one.rows()] == ["public.t_1"]
        remedy = r'ALTER PUBLICATION "firn" SET \(publish_via_partition_root = true\)'
        for asked in ({}, {"tables": ("public.t",)}, {"publication": "firn"}):
            with pytest.raises(ConfigError, match=r"rows of public\.t under the names of its partitions.*" + remedy):
                Backfill(tmp_path / "2", address, **asked).planned(takes="public.t")
        assert len(Backfill(tmp_path / "3", address, tables=("public.t_1",)).planned().tables) == 1
        server.rows("ALTER PUBLICATION firn SET (publish_via_partition_root = true)")
        plan = Backfill(tmp_path / "4", address, publication="firn").planned()
        assert [(table.name, len(plan.chunks)) for table in plan.tables] == [("public.t", 1)]
        with pytest.raises(ConfigError, match=r"public\.t_1 is a partition of public\.t, by whose name"):
            Backfill(tmp_path / "5", address, publication="firn", tables=("public.t_1",)).planned()
    finally:
        server.rows("DROP PUBLICATION firn")


def test_what_the_user_may_not_read_is_named_with_what_to_run_before_anything_is_read(
    server: Session, address: str, tmp_path: Path
) -> None:
    server.rows("DROP ROLE IF EXISTS reader")
    server.rows("CREATE ROLE reader LOGIN PASSWORD 'geheim'")
    server.rows("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    server.rows("CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    server.rows('CREATE TABLE "O" (id int PRIMARY KEY)')
    server.rows("CREATE TABLE other (id int PRIMARY KEY)")
    server.rows('GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT ON t, "O" TO reader')
    of_reader = address.replace(address.split("//")[1].split("@")[0], "reader:geheim")
    for asked, said in (
        (
            {},
            r'public\.other, public\.t, which .*GRANT SELECT ON public\.other TO "reader"; GRANT SELECT ON public\.t_1',
        ),
        ({"tables": ("public.other",)}, r'all of public\.other, .*GRANT SELECT ON public\.other TO "reader"'),
    ):
        with pytest.raises(ConfigError, match=said):
            Backfill(tmp_path, of_reader, **asked).planned()
    assert len(Backfill(tmp_path / "1", of_reader).planned(takes="public.O").tables) == 1
    server.rows('ALTER TABLE "O" ENABLE ROW LEVEL SECURITY')
    with pytest.raises(
        ConfigError, match=r'ALTER ROLE "reader" BYPASSRLS \(row-level security hides rows of public\."O"'
    ):
        Backfill(tmp_path / "2", of_reader).planned(takes="public.O")
    with pytest.raises(TerminalError, match="affected by row-level security"):
        Backfill(tmp_path / "1", of_reader).run_planned()
    server.rows("REVOKE USAGE ON SCHEMA public FROM PUBLIC; REVOKE USAGE ON SCHEMA public FROM reader")
    with pytest.raises(ConfigError, match='GRANT USAGE ON SCHEMA "public" TO "reader"; GRANT SELECT'):
        Backfill(tmp_path / "3", of_reader, tables=("public.O",)).planned()
    server.rows("DROP OWNED BY reader")
    server.rows("DROP ROLE reader")


def test_tables_that_can_not_be_read_are_named(server: Session, address: str, tmp_path: Path) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(ConfigError, match=r"no table public\.u that could be read; it has public\.t"):
        Backfill(tmp_path, address, tables=("public.u",)).planned()
    with pytest.raises(ConfigError, match=r"column .nope. does not exist"):
        Backfill(tmp_path / "2", address, tables=("public.t",), where="nope = 1").run()
