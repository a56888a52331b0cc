"""firn.yaml as it should be: what each setting becomes."""

import dataclasses
import hashlib
import json
import re
import subprocess
import sys

import pytest

from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import parse as parse_type
from firn.config.epoch_limits import Caps
from firn.config.file_writing import BloomSize, FileWriting
from firn.config.model import BacklogLimit, CatalogConfig, ColumnDeclaration, CommitPolicy, StreamConfig, TableRule
from firn.config.partitions import Partition
from firn.config.reader import parse
from firn.maintenance.launcher import feeding

DESIGN = """\
catalog: {type: sql}                # sql | glue | rest | hive | nessie
warehouse: s3://acme-lake/warehouse # s3:// | file://
streams:
  shop:
    envelope: debezium              # … | auto
    unavailable_value: __custom_unavail
    commit: {every: 5m, size: 10MiB, max_size: 64MB, max_events: 70000}
    backlog: {bytes: 2GB, events: 9000000, age: 6h}
    debezium: {decimal.handling.mode: string, time.precision.mode: isostring, binary.handling.mode: hex,
               interval.handling.mode: string}
    out_of_range: dead_letter
    generation: 3
    order_by: version
    tables:
      public.orders:
        to: shop.orders
        key: [order_id, line]
        mode: mirror
        snapshot_reads: ignore
        write: copy-on-write
        partition_by: [day(created_at), bucket(16, customer_id), region]
        columns: {amount: decimal(12,2), placed: timestamp(3), tags: list<string>, day: date}
      '*':
        to: shop.{table}
        mode: append
"""


def stream(body: str) -> StreamConfig:
    return parse(f"streams:\n  shop:\n{body}").streams["shop"]


def rule(body: str) -> TableRule:
    return stream(f"    tables:\n      public.orders: {{to: shop.orders, {body}}}\n").tables[0]


def test_the_whole_of_the_design_page_is_read() -> None:
    config = parse(DESIGN)
    assert config.catalog == CatalogConfig("sql", None, {})
    assert config.warehouse == "s3://acme-lake/warehouse"
    shop = config.streams["shop"]
    assert dataclasses.replace(shop, tables=()) == StreamConfig(
        name="shop",
        tables=(),
        envelope="debezium",
        unavailable_value="__custom_unavail",
        commit=CommitPolicy(300, 10 * 2**20, caps=Caps(64_000_000, 70_000)),
        backlog=BacklogLimit(2_000_000_000, 9_000_000, 6 * 3600),
        decimal="string",
        time="isostring",
        binary="hex",
        interval="string",
        out_of_range="dead_letter",
        generation=3,
        order_by=("version",),
    )
    assert shop.tables[0] == TableRule(
        source="public.orders",
        to="shop.orders",
        key=("order_id", "line"),
        snapshot_reads="ignore",
        write="copy-on-write",
        partition_by=(
            Partition("day", "created_at"),
            Partition("bucket", "customer_id", 16),
            Partition("identity", "region"),
        ),
        columns={
            "amount": ColumnDeclaration(parse_type("decimal(12,2)")),
            "placed": ColumnDeclaration(parse_type("timestamp"), 3),
            "tags": ColumnDeclaration(parse_type("list<string>")),
            "day": ColumnDeclaration(parse_type("date")),
        },
    )
    assert shop.tables[1] == TableRule(source="*", to="shop.{table}", mode="append")


def test_what_is_left_out_has_the_defaults_of_the_sources() -> None:
    config = parse("streams: {shop: {tables: {'*': {to: 'shop.{table}'}}}}")
    assert (config.catalog, config.warehouse) == (CatalogConfig(), "")
    shop = config.streams["shop"]
    assert shop == StreamConfig(name="shop", tables=(TableRule("*", "shop.{table}"),))
    assert shop.commit == CommitPolicy(60, 100_000_000, caps=Caps(256_000_000, 5_000_000))
    assert shop.backlog == BacklogLimit(10_000_000_000, None, None)
    assert shop.settings == DecodeSettings()


def test_decode_settings_carry_everything_that_the_stream_says() -> None:
    assert parse(DESIGN).streams["shop"].settings == DecodeSettings(
        unavailable_value="__custom_unavail",
        decimal="string",
        time="isostring",
        binary="hex",
        interval="string",
        out_of_range="dead_letter",
    )


def test_the_sha_names_the_text_and_the_text_is_kept() -> None:
    config = parse(DESIGN)
    assert config.text == DESIGN
    assert config.sha == hashlib.sha256(DESIGN.encode()).hexdigest()
    assert parse(DESIGN + "# a comment\n").sha != config.sha


def test_a_key_may_be_one_word() -> None:
    assert rule("key: order_id").key == ("order_id",)


def test_words_that_yaml_takes_for_something_else_stay_texts() -> None:
    orders = rule("key: [no, 1, 2024-01-01, 0x10, null_]")
    assert orders.key == ("no", "1", "2024-01-01", "0x10", "null_")
    tables = stream("    tables:\n      on: {to: shop.yes}\n      '123': {to: shop.123}\n").tables
    assert [(r.source, r.to) for r in tables] == [("on", "shop.yes"), ("123", "shop.123")]


def test_bloom_filters_are_of_the_key_or_of_columns_by_name() -> None:
    assert rule("key: [a]").bloom == ()
    assert rule("bloom: key").bloom == "key"
    assert rule("bloom: [key]").bloom == ("key",)  # a column of that name
    assert rule("bloom: order_id").bloom == ("order_id",)
    assert rule("bloom: [a, b]").bloom == ("a", "b")
    assert rule("bloom: {columns: key}").bloom == "key"
    sized = rule("bloom: {columns: [a, b], fpp: 0.001, max_bytes: 64KB}")
    assert (sized.bloom, sized.bloom_size) == (("a", "b"), BloomSize(0.001, 64_000))


def test_a_body_may_be_as_large_as_a_lambda_takes() -> None:
    some = ["1MB", "4.7MB", "4.25MB", "64KB"]
    assert [stream(f"    max_body: {one}\n    tables: {{a: {{to: b.c}}}}\n").max_body for one in some] == [
        1_000_000, 4_700_000, 4_250_000, 64_000
    ]  # fmt: skip


def test_how_files_are_written_is_told_in_icebergs_own_words() -> None:
    assert rule("key: [a]").writing == FileWriting()
    more = "properties: {write.parquet.page-size-bytes: 64KiB, write.metadata.metrics.column.a: truncate( 8 )}"
    found = rule(f"compression: gzip, compression_level: 9, target_file_size: 16MB, {more}")
    assert found.writing.properties == {
        "write.parquet.compression-codec": "gzip",
        "write.parquet.compression-level": "9",
        "write.target-file-size-bytes": "16000000",
        "write.parquet.page-size-bytes": "65536",
        "write.metadata.metrics.column.a": "truncate(8)",
    }
    assert found.care.compaction.target_bytes == found.writing.target_bytes == 16_000_000
    assert rule("target_file_size: 16MB, care: {compact: {target: 32MB}}").care.compaction.target_bytes == 32_000_000
    assert [rule(f"compression: {one}").writing.properties for one in ("none", "lz4")] == [
        {"write.parquet.compression-codec": "uncompressed"},
        {"write.parquet.compression-codec": "lz4_raw"},
    ]


def test_a_rule_may_name_icebergs_format_and_says_nothing_of_it_else() -> None:
    assert [rule(f"format: {one}").writing.format for one in (2, 3)] == [2, 3]
    assert rule("compression: zstd").writing.format is None


def test_brackets_hold_their_commas_together_also_in_lists_and_mappings() -> None:
    orders = rule(
        "partition_by: [bucket(4, a), truncate(8, b), c], columns: {a: decimal(38, 18), b: 'decimal(4,1)', c: long}"
    )
    assert [str(partition) for partition in orders.partition_by] == ["bucket(4, a)", "truncate(8, b)", "c"]
    assert {name: str(column.type) for name, column in orders.columns.items()} == {
        "a": "decimal(38,18)",
        "b": "decimal(4,1)",
        "c": "long",
    }


def test_out_of_range_null_is_the_word_and_not_yamls_nothing() -> None:
    assert stream("    out_of_range: null\n    tables: {a.b: {to: c.d}}\n").out_of_range == "null"


def test_environment_values_are_not_expanded() -> None:
    assert stream("    unavailable_value: ${HOME}\n    tables: {a.b: {to: c.d}}\n").unavailable_value == "${HOME}"


def test_anchors_share_settings() -> None:
    shop = stream("    tables:\n      a.b: &same {to: 'shop.{table}', key: id}\n      a.c: *same\n")
    assert [(r.source, str(shop.target(r.source)), r.key) for r in shop.tables] == [
        ("a.b", "shop.b", ("id",)),
        ("a.c", "shop.c", ("id",)),
    ]


def test_several_streams_may_feed_one_append_table() -> None:
    body = "{tables: {a.b: {to: all.events, mode: append}}}"
    assert len(parse(f"streams:\n  one: {body}\n  two: {body}\n").streams) == 2


def test_one_stream_may_mirror_several_sources_into_one_table() -> None:
    assert len(stream("    tables: {s.part: {to: s.part}, 's.part_*': {to: s.part}}\n").tables) == 2


@pytest.mark.parametrize(
    ("type_", "uri"),
    [("rest", "https://c.example.org"), ("hive", "thrift://c:9083"), ("nessie", "https://c.example.org/iceberg")],
)
def test_catalogs_with_an_address_take_it_and_their_properties(type_: str, uri: str) -> None:
    catalog = f"{{type: {type_}, uri: '{uri}', properties: {{warehouse: w1}}}}"
    text = f"catalog: {catalog}\nstreams: {{s: {{tables: {{a.b: {{to: c.d}}}}}}}}"
    assert parse(text).catalog == CatalogConfig(type_, uri, {"warehouse": "w1"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("s3://bucket/prefix/", "s3://bucket/prefix"),
        ("file:///var/lake", "file:///var/lake"),
    ],
)
def test_warehouses_lose_a_slash_at_the_end(written: str, kept: str) -> None:
    assert parse(f"warehouse: {written}\nstreams: {{s: {{tables: {{a.b: {{to: c.d}}}}}}}}").warehouse == kept


def test_importing_the_configuration_imports_no_yaml() -> None:
    code = "import sys, firn.config.model; sys.exit(bool({'yaml', 'msgspec', 'pathlib'} & set(sys.modules)))"
    # -S: a site's own hooks may import anything.
    environment = {"PYTHONPATH": "layers/core/python"}
    assert subprocess.run([sys.executable, "-S", "-c", code], env=environment, check=False).returncode == 0


def test_who_commits_in_large_portions_gets_epochs_that_hold_them() -> None:
    config = parse("streams: {shop: {commit: {size: 1GB}, tables: {a.b: {to: shop.b}}}}")
    assert config.streams["shop"].commit.caps.bytes == 10**9


def test_renames_are_the_new_name_and_the_old_one() -> None:
    config = parse("streams: {shop: {tables: {a.b: {to: shop.b, renames: {c: b, b: a, 'dot.ted': no}}}}}")
    assert config.streams["shop"].tables[0].renames == {"c": "b", "b": "a", "dot.ted": "no"}


def test_the_namespaces_of_a_configuration_are_those_that_its_rules_can_name() -> None:
    rules = "a.b: {to: shop.b}, a.x: {to: no.x, ignore: true}, 'c.*': {to: 'crm_{schema}.{table}'}"
    config = parse(f"streams: {{shop: {{tables: {{{rules}}}}}}}")
    names = ("shop", "crm_c", "crm_", "no", "shopping", "dev_shop")
    assert [config.feeds_namespace(name) for name in names] == [True, True, False, False, False, False]


def test_a_table_is_looked_up_in_a_thousand_rules_by_its_name_and_a_pattern_is_made_for_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = {f"public.t{n:04d}": {"to": f"shop.table_{n:04d}", "key": ["id"]} for n in range(1_000)}
    rules["crm.*"] = {"to": "crm.{schema}_{table}", "key": ["id"]}
    config = parse(json.dumps({"streams": {"shop": {"envelope": "debezium", "tables": rules}}}))
    patterns: list[str] = []
    escape = re.escape
    monkeypatch.setattr(re, "escape", lambda text: patterns.append(text) or escape(text))
    assert feeding(config, "shop.table_0998") == {"shop"}
    assert feeding(config, "crm.crm_b") == {"shop"}
    assert feeding(config, "shop.table_9999") == feeding(config, "crm.a_b") == set()
    assert set(patterns) == {"crm.crm_", ""}
