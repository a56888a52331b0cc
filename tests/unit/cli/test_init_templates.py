"""A first firn.yaml for a database whose tables and columns are called what Firn calls its own."""

from firn.config.names import is_reserved
from firn.config.reader import parse
from firn_cli.init_templates import firn_yaml
from firn_cli.postgres_source import Address, Source, SourceColumn, SourceTable


def test_a_first_firn_yaml_names_no_table_and_no_column_of_firns_own() -> None:
    columns = (SourceColumn("id", "long"), SourceColumn("_firn_pos", "binary"), SourceColumn("v__firn_new", "string"))
    names = ("zz", "zz__deletes", "zz__check", "_firn_zz", "dot.ted__deletes")
    tables = [SourceTable("public", name, ("id",), "primary key", "d", columns) for name in names]
    text = firn_yaml(Source("17", "logical", tuple(tables), 0), Address("here", 5432, "me", "shop"), "shop")
    stream = parse(text).streams["shop"]
    targets = {stream.target(f"public.{name}").table for name in names}
    assert len(targets) == len(names)
    assert not any(map(is_reserved, targets))
    assert {column for rule in stream.tables for column in rule.columns} == {"id"}
