"""firn.yaml as it should not be: each error names file, line and key, and says what to write."""

import pytest

from firn.config.reader import parse
from firn.config.storage import read_staging
from firn.errors import ConfigError

GOOD = "tables: {a.b: {to: shop.b}}"


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parse(text)
    return str(raised.value).splitlines()


def problem(text: str) -> str:
    (only,) = problems(text)
    return only


def in_stream(line: str) -> str:
    return problem(f"streams:\n  shop:\n    {line}\n    {GOOD}\n")


def in_rule(line: str) -> str:
    to = "" if line.startswith("to:") else "        to: shop.orders\n"
    return problem(f"streams:\n  shop:\n    tables:\n      public.orders:\n        {line}\n{to}")


def test_a_wrong_word_names_file_line_key_and_what_to_write() -> None:
    assert in_rule("mode: mirrored") == (
        "firn.yaml:5: streams.shop.tables.public.orders.mode: 'mirrored' is not a mode; write mirror or append"
    )


def test_the_file_is_named_as_it_was_given() -> None:
    with pytest.raises(ConfigError, match=r"^conf/other\.yaml:1: "):
        parse("[", "conf/other.yaml")


def test_what_is_refused_only_now_goes_on_where_it_was_published() -> None:
    text = "streams: {shop: {tables: {a.b: {to: shop.b__deletes, columns: {c__firn_new: long, _pos: long}}}}}"
    assert len(problems(text)) == 3
    assert str(parse(text, published=True).streams["shop"].target("a.b")) == "shop.b__deletes"


def test_history_says_when_to_expect_it() -> None:
    told = in_rule("mode: history")
    assert "expect it in a release after 0.1" in told
    assert told.endswith("write mirror or append")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("envelop: debezium", "streams.shop.envelop: is not a setting; write envelope"),
        ("views: {a.b: {sql: SELECT 1}}", "streams.shop.views: is for all streams; write it beside `streams:`"),
        ("whatever: 1", "streams.shop.whatever: is not a setting; write one of envelope, unavailable_value"),
        ("envelope: debesium", "'debesium' is not an envelope; write debezium"),
        ("envelope: [debezium]", "streams.shop.envelope: is a list; write debezium, flat, cloudevents, rows"),
        ("envelope:", "streams.shop.envelope: is empty; write debezium, flat, cloudevents, rows"),
        ("generation: -1", "'-1' is not a whole number from 0"),
        ("generation: 1.5", "'1.5' is not a whole number from 0"),
        ("generation: 4294967296", "is not a whole number from 0 to 4294967295"),
        ("commit: {max_size: 10MB}", "streams.shop.commit.max_size: is less than size: no epoch could hold so much"),
        ("commit: {max_events: 0}", "'0' is not a whole number from 1 to 1000000000000; write 5000000"),
        ("commit: {most: 1}", "streams.shop.commit.most: is not a setting; write one of every, size, fresh, linger"),
        ("backlog: {bytes: 10}", "streams.shop.backlog.bytes: '10' is not a size; write 10MB"),
        ("backlog: {events: many}", "'many' is not a whole number from 1 to 1000000000000; write 10000000"),
        ("backlog: {age: 2d}", "streams.shop.backlog.age: '2d' is not from 1s to 24h; write 60s"),
        ("backlog: {size: 1GB}", "streams.shop.backlog.size: is not a setting; write"),
        ("backlog: 10GB", "streams.shop.backlog: is "),
        ("out_of_range: nul", "'nul' is not a treatment; write null or dead_letter"),
        ("order_by: [a, b, c]", "streams.shop.order_by: names 3 fields, and a position holds 2; write two of them"),
        ("commit: {every: 60}", "streams.shop.commit.every: '60' is not a duration; write 60s"),
        ("commit: {every: 0s}", "'0s' is not from 1s to 24h"),
        ("commit: {size: 100}", "streams.shop.commit.size: '100' is not a size; write 100MB"),
        ("commit: {size: 1B}", "'1B' is not from 1KB to 1TB"),
        ("commit: {evry: 60s}", "streams.shop.commit.evry: is not a setting; write every"),
        ("commit: 60s", "streams.shop.commit: is a text; write a mapping"),
        ("decimal.handling.mode: string", "belongs under `debezium:`"),
        ("debezium: {decimal.handling.mode: strng}", "'strng' is not a decimal mode; write precise, string or double"),
        ("debezium: {unavailable.value.placeholder: x}", "write unavailable_value: … beside `debezium:`"),
        ("<<: {a: b}", "merge keys are not read"),
        ("rate: 5MB", "streams.shop.rate: '5MB' is not a rate; write 5MB/s"),
        ("rate: fast", "streams.shop.rate: 'fast' is not a rate; write 5MB/s"),
        ("rate: 5/s", "streams.shop.rate: '5/s' is not a rate from 1KB/s to 1TB/s; write 5MB/s"),
        ("rate: 5MB/h", "streams.shop.rate: '5MB/h' is not a rate; write 5MB/s"),
        ("max_body: 5MB", "streams.shop.max_body: '5MB' is not from 1KB to 4.7MB; write 1MB"),
        ("max_body: 0.5KB", "streams.shop.max_body: '0.5KB' is not from 1KB to 4.7MB; write 1MB"),
        ("max_body: 4.7", "streams.shop.max_body: '4.7' is not a size; write"),
        ("max_body: 1e3MB", "streams.shop.max_body: '1e3MB' is not a size; write"),
    ],
)
def test_problems_of_a_stream(line: str, told: str) -> None:
    assert told in in_stream(line)
    assert in_stream(line).startswith("firn.yaml:3: streams.shop.")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("to: orders", "'orders' names no namespace; write namespace.table, shop.orders for example"),
        ("to: a.b.c", "'a.b.c' has more than one dot; write namespace.table"),
        ("to: shop.{tabel}", "holds an unknown placeholder; write {schema} or {table}"),
        ("to: .orders", "gives no table name"),
        ("to: {a: b}", "public.orders.to: is a mapping; write shop.orders"),
        ("key: [a, a]", "names a twice; write each column once"),
        ("key: []", "needs texts; write key: [id]"),
        ("key: [[a]]", "needs texts; write key: [id]"),
        ("key:", "needs texts; write key: [id]"),
        ("write: in-place", "'in-place' is not a way to write; write merge-on-read or copy-on-write"),
        ("snapshot_reads: no", "'no' is not a treatment of snapshot reads; write upsert or ignore"),
        ("ignore: perhaps", "'perhaps' is neither true nor false"),
        ("partition_by: [bukket(3, x)]", "bukket is not a partition transform"),
        ("partition_by: bucket(x)", "needs a number above 0 and a column; write bucket(16, x)"),
        ("partition_by: [day(a), day(a)]", "'day(a)' is there twice"),
        ("bloom: [a, b, a]", "names a twice; write each column once"),
        ("bloom: [[a]]", "needs texts; write bloom: key, or bloom: [order_id]"),
        ("bloom: {fpp: 0.1}", "bloom.columns: is missing; write columns: key, or columns: [order_id]"),
        ("bloom: {columns: [a, a]}", "bloom.columns: names a twice; write each column once"),
        ("bloom: {columns: key, fpp: 2}", "bloom.fpp: '2' is not a share from 0.0001 to 0.5; write 0.01"),
        ("bloom: {columns: key, fpp: nan}", "bloom.fpp: 'nan' is not a share from 0.0001 to 0.5; write 0.01"),
        ("bloom: {columns: key, max_bytes: 1GB}", "bloom.max_bytes: '1GB' is more than 128MB; write 1MB"),
        ("bloom: {columns: key, size: 1MB}", "bloom.size: is not a setting; write"),
        ("metadata: [source]", "metadata: is of append tables, and this one is a mirror; leave it out, or write mode:"),
        ("metadata: [when]\n        mode: append", "'when' is not known here; write source, stream or transaction"),
        ("compression: zip", "compression: 'zip' is not a compression; write gzip"),
        ("compression_level: 99", "compression_level: '99' is not a whole number from 1 to 22; write 3"),
        (
            "compression_level: 1\n        compression: snappy",
            "compression_level: says nothing of snappy; leave it out",
        ),
        ("target_file_size: 5", "target_file_size: '5' is not a size; write 5MB"),
        ("format: 4", "format: '4' is not a whole number from 2 to 3; write 2"),
        ("format: v3", "format: 'v3' is not a whole number from 2 to 3; write 2"),
        ("properties: {format-version: 3}", "format-version: write format: 2 or format: 3 beside `properties:`"),
        ("target_file_size: 2GB", "target_file_size: '2GB' is not from 1MB to 1GB; write 256MB"),
        ("properties: {write.data.path: s3://b}", "write.data.path: is not a property that firn.yaml sets; write one"),
        ("properties: {write.parquet.compression-codec: gzip}", "write compression: zstd beside `properties:`"),
        ("properties: {write.parquet.bloom-filter-max-bytes: 1}", "write bloom: {columns: key, fpp: 0.01, max_bytes:"),
        ("properties: {write.delete.mode: x}", "write write: merge-on-read or copy-on-write beside `properties:`"),
        ("properties: {write.parquet.page-size-bytes: 1GB}", "'1GB' is not from 1KB to 100MB; write 1MB"),
        ("properties: {write.parquet.page-row-limit: few}", "'few' is not a whole number from 100 to 10000000; write"),
        ("properties: {write.metadata.metrics.default: some}", "'some' is not a kind of metrics; write none, counts"),
        ("properties: {write.metadata.metrics.column._firn_pos: none}", "is of a column that Firn keeps for itself"),
        ("properties: {write.object-storage.enabled: perhaps}", "'perhaps' is not known here; write true or false"),
        ("columns: {a: numeric(12,2)}", "columns.a: 'numeric(12, 2)' is not a type; write decimal(12,2)"),
        ("columns: {a: bigint}", "columns.a: 'bigint' is not a type; write long"),
        ("columns: {a: 'map<string, fixed[0]>'}", "columns.a: fixed[0]: the length is 1 to 65,535 bytes; write binary"),
        (
            "columns: {a: 'fixed[2147483648]'}",
            "columns.a: 'fixed[2147483648]' is not a type; write fixed[n], of 1 to 65,535",
        ),
        ("columns: {a: 'struct<>'}", "columns.a: a struct has fields, and each has a name; write struct<name: type"),
        (
            "columns: {a: 'struct<b: int, B: int>'}",
            "columns.a: a struct has the fields b and B, which SQL can't tell apart",
        ),
        ("columns: {a: 'struct<b: int>', a.b: long}", "columns.a.b: 'a.b' is there twice: in 'a' and 'a.b'"),
        (
            f"columns: {{a: '{'map<string, ' * 1000}int{'>' * 1000}'}}",
            "columns.a: the type is nested more than 20 deep",
        ),
        ("columns: {a: decimal(39,40)}", "columns.a: decimal(39,40) does not exist"),
        ("columns: {_firn_pos: binary}", "begins with _firn_"),
        (
            "columns: {a: variant}",
            "columns.a: is a variant, which only tables of Iceberg's format 3 have; write format: 3",
        ),
        (
            "columns: {a: list<variant>}",
            "a variant is a column, and no part of one; write variant for the whole column",
        ),
        ("colums: {a: long}", "is not a setting; write columns"),
    ],
)
def test_problems_of_a_table(line: str, told: str) -> None:
    assert told in in_rule(line)
    assert in_rule(line).startswith("firn.yaml:5: streams.shop.tables.public.orders.")


@pytest.mark.parametrize(
    ("kind", "entry", "told"),
    [
        ("date", "hour(a)", "hour(a): a is date; write a, bucket(16, a), year(a), month(a), day(a)"),
        ("double", "'bucket(4, a)'", "bucket(4, a): a is double; write a"),
        ("list<int>", "a", "a is a list, which nothing can be partitioned by"),
        ("'map<string, int>'", "a", "a is a map, which nothing can be partitioned by"),
        ("'fixed[3]'", "a", "a is fixed, whose values no table can be partitioned by; write bucket(16, a)"),
        (
            "'fixed[3]'",
            "'truncate(2, a)'",
            "a is fixed, whose values no table can be partitioned by; write bucket(16, a)",
        ),
    ],
)
def test_partitions_that_a_declared_type_can_not_have(kind: str, entry: str, told: str) -> None:
    found = in_rule(f"columns: {{a: {kind}}}\n        partition_by: [{entry}]")
    assert found == f"firn.yaml:6: streams.shop.tables.public.orders.partition_by: {told}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pipelines: {p: {}}", "firn.yaml:1: pipelines: belongs to a stream; write it under streams: NAME:"),
        ("catalogue: {type: sql}", "firn.yaml:1: catalogue: is not a setting; write catalog"),
        ("catalog: {type: rets}", "firn.yaml:1: catalog.type: 'rets' is not a catalog type; write rest"),
        ("catalog: {type: rest}", "firn.yaml:1: catalog.uri: is missing, and a rest catalog needs it"),
        ("catalog: {properties: {s3.secret-access-key: x}}", "is a secret, and this file is stored"),
        ("catalog: {uri: 'postgresql://u:hunter2@h/d'}", "holds a password"),
        ("warehouse: s3a://b/p", "write s3://"),
        ("warehouse: ftp://b/p", "ftp:// is not a storage that Firn writes to; write s3, gs, abfss or file://"),
        ("warehouse: gcs://b/p", "gcs:// is not a storage that Firn writes to; write gs://bucket/prefix"),
        ("warehouse: az://lake/p", "write abfss://container@account.dfs.core.windows.net/prefix"),
        ("warehouse: wasbs://c@acme.blob.core.windows.net/p", "wasbs:// is not a storage that Firn writes"),
        (
            "warehouse: abfss://lake/p",
            "firn.yaml:1: warehouse: 'lake' names no container of an account; write abfss://co",
        ),
        (
            "warehouse: abfss://lake@acme.blob.core.windows.net/p",
            "names no container of an account; write abfss://cont",
        ),
        ("warehouse: abfss://Lake@acme.dfs.core.windows.net/p", "'Lake' is not a container's name; write abfss://cont"),
        ("warehouse: abfss://lake@a-c.dfs.core.windows.net/p", "'a-c' is not a storage account's name; write abfss://"),
        ("warehouse: abfss://lake:hunter2@acme.dfs.core.windows.net/p", "holds a password"),
        ("warehouse: gs://Acme_/p", "'Acme_' is not a bucket's name; write gs://bucket/prefix"),
        ("warehouse: gs:///p", "names no bucket; write gs://bucket/prefix"),
        ("warehouse: lake", "'lake' is not an address; write s3://bucket/prefix"),
        ("warehouse: file://lake", "is not an absolute path; write file:///path"),
        ("warehouse: s3:///p", "names no bucket"),
        ("warehouse: s3://key:hunter2@b/p", "holds a password"),
        ("streams: {Shop: {tables: {a.b: {to: c.d}}}}", "streams.Shop: is not a stream name"),
    ],
)
def test_problems_at_the_top(text: str, told: str) -> None:
    more = "" if text.startswith("streams") else f"\nstreams: {{shop: {{{GOOD}}}}}"
    assert told in problem(text + more)
    assert "hunter2" not in problem(text + more)


@pytest.mark.parametrize(
    "warehouse",
    ["gs://acme-lake", "gs://acme.lake/a/b", "abfss://lake@acme.dfs.core.windows.net/a/b", "s3://acme-lake/a b"],
)
def test_warehouses_of_each_storage(warehouse: str) -> None:
    assert parse(f"warehouse: {warehouse}/\nstreams: {{shop: {{{GOOD}}}}}").warehouse == warehouse


def test_staged_data_may_lie_in_the_environments_account() -> None:
    assert read_staging(" az://lake/a b/ ", ("gs",)) == "az://lake/a b"
    assert read_staging("az://lake", ("gs",)) == "az://lake"
    assert read_staging("gs://acme-lake/x/", ("gs",)) == "gs://acme-lake/x"
    with pytest.raises(ValueError, match="'Lake' is not a container's name"):
        read_staging("az://Lake/x", ("gs",))
    with pytest.raises(ValueError, match="s3:// is not supported here; write gs://bucket/prefix"):
        read_staging("s3://lake/x", ("gs",))


CLOUD = {"s3": "s3://acme-lake/w", "azure": "abfss://lake@acme.dfs.core.windows.net/w", "google": "gs://acme-lake/w"}


@pytest.mark.parametrize(
    ("storage", "kind", "told"),
    [
        ("s3", "GLACIER_IR", None),
        ("azure", "Cold", None),
        ("google", "ARCHIVE", None),
        (
            "azure",
            "STANDARD_IA",
            "'STANDARD_IA' is a storage class of S3, and the tables are in Azure; write Cool or Cold",
        ),
        (
            "google",
            "Cool",
            "'Cool' is a storage class of Azure, and the tables are in Google Cloud Storage; write NEARLINE",
        ),
        ("azure", "Archive", "'Archive' is an archive of Azure: objects have to be restored before they can be read"),
        ("azure", "ARCHIVE", "'ARCHIVE' is a storage class of Google Cloud Storage, and the tables are in Azure"),
        ("s3", "DEEP_ARCHIVE", "'DEEP_ARCHIVE' is an archive of S3: objects have to be restored"),
        (
            "google",
            "Hot",
            "'Hot' is not a storage class of Google Cloud Storage for live tables; write NEARLINE, COLDLINE or",
        ),
        ("azure", "Hot", "'Hot' is not a storage class of Azure for live tables; write Cool or Cold"),
    ],
)
def test_cold_files_go_to_a_class_of_the_warehouses_storage(storage: str, kind: str, told: str | None) -> None:
    tier = f"care: {{tier: {{cold_after: 90d, class: {kind}}}}}"
    common = f"warehouse: {CLOUD[storage]}\n{tier}\nstreams: {{shop: {{{GOOD}}}}}"
    rule = f"warehouse: {CLOUD[storage]}\nstreams: {{shop: {{tables: {{a.b: {{to: shop.b, {tier}}}}}}}}}"
    if told is None:
        assert parse(common).care.tiering.storage_class == kind
        assert next(iter(parse(rule).streams["shop"].targets)).care.tiering.storage_class == kind
        return
    assert f"firn.yaml:2: care.tier.class: {told}" in problem(common)
    assert f"firn.yaml:2: streams.shop.tables.a.b.care.tier.class: {told}" in problem(rule)


def test_a_class_of_any_storage_is_taken_where_the_environment_names_the_warehouse() -> None:
    for kind in ("STANDARD_IA", "Cold", "NEARLINE"):
        assert (
            parse(f"care: {{tier: {{class: {kind}}}}}\nstreams: {{shop: {{{GOOD}}}}}").care.tiering.storage_class
            == kind
        )
    told = problem(f"care: {{tier: {{class: Archive}}}}\nstreams: {{shop: {{{GOOD}}}}}")
    assert "care.tier.class: 'Archive' is an archive of Azure" in told
    assert "NEARLINE, COLDLINE or ARCHIVE" in told
    for wrong in ("{a: b}", "[Cool]", "''"):
        assert (
            problem(f"care: {{tier: {{class: {wrong}}}}}\nstreams: {{shop: {{{GOOD}}}}}").count("care.tier.class") == 1
        )


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = """\
warehouse: lake
streams:
  shop:
    envelop: flat
    tables:
      a.b: {mode: x, to: shop.b}
  other:
    generation: x
    tables: {}
catalog: {type: x}
"""
    lines = [int(line.split(":")[1]) for line in problems(text)]
    assert lines == [1, 4, 6, 8, 9, 10]


def test_a_key_that_is_written_twice_names_both_lines() -> None:
    text = "streams:\n  shop:\n    tables:\n      a.b: {to: c.d}\n      a.b: {to: c.e}\n"
    assert problem(text) == "firn.yaml:5: streams.shop.tables.a.b: is written twice (first on line 4); keep one"


def test_two_streams_cannot_mirror_one_table() -> None:
    text = "streams:\n  one: {tables: {a.b: {to: shop.b}}}\n  two: {tables: {x.b: {to: 'shop.{table}'}}}\n"
    assert problem(text) == (
        "firn.yaml:3: streams.two.tables.x.b.to: shop.b is already the mirror of stream one (line 2), and a mirror "
        "table has exactly one stream; write another `to`, or mode: append in both"
    )


def test_two_streams_cannot_mirror_by_one_pattern() -> None:
    text = "streams:\n  one: {tables: {'*': {to: 'shop.{table}'}}}\n  two: {tables: {'x.*': {to: 'shop.{table}'}}}\n"
    assert "shop.{table} is already the mirror of stream one" in problem(text)


def test_patterns_of_different_schemas_go_to_different_tables() -> None:
    one = "{tables: {'a.*': {to: '{schema}.{table}'}}}"
    two = one.replace("a.*", "b.*")
    assert len(parse(f"streams:\n  one: {one}\n  two: {two}\n").streams) == 2


def test_a_table_is_mirror_or_append_and_not_both() -> None:
    text = "streams:\n  one: {tables: {a.b: {to: s.b}}}\n  two: {tables: {a.b: {to: s.b, mode: append}}}\n"
    assert "s.b is append here and mirror on line 2; write one mode" in problem(text)


def test_rules_that_share_a_mirror_share_its_key() -> None:
    text = "streams: {s: {tables: {a.b: {to: s.b, key: id}, a.c: {to: s.b, key: [x, y]}}}}"
    assert "s.b has the key [id] on line 1; write the same key in both rules" in problem(text)


def test_every_source_table_into_one_mirror_is_a_mistake() -> None:
    assert "would mirror every source table into one" in problem("streams: {s: {tables: {'*': {to: s.b}}}}")


def test_a_missing_target_says_what_to_write() -> None:
    text = "streams:\n  shop:\n    tables:\n      public.orders:\n      'x.*':\n"
    assert problems(text) == [
        "firn.yaml:4: streams.shop.tables.public.orders.to: is missing; write to: shop.orders",
        "firn.yaml:5: streams.shop.tables.x.*.to: is missing; write to: shop.{table}",
    ]


def test_streams_and_tables_must_be_there() -> None:
    assert "streams: is missing" in problem("catalog: {type: sql}")
    assert "streams.shop.tables: is missing" in problem("streams: {shop: {envelope: flat}}")
    assert "streams: is a list; write a mapping" in problem("streams: [shop]")
    assert problem("- a\n") == "firn.yaml:1: is a list; write a mapping of `name: value` lines"


@pytest.mark.parametrize(
    ("renames", "told"),
    [
        ("{b: b}", "renames.b: is the old name too; write new name: old name"),
        ("{_firn_pos: a}", "renames._firn_pos: names that begin with _firn_ are Firn's own"),
        ("{b: _firn_pos}", "renames.b: names that begin with _firn_ are Firn's own"),
        ("{b: a, c: a}", "renames.c: 'a' became 'b' above, and can't have become two columns"),
        ("{b: id}", "renames.b: 'id' is in the key, which can't be renamed"),
        ("{id: a}", "renames.id: 'id' is in the key, which can't be renamed"),
        ("{b: amount}", "renames.b: 'amount' is declared under columns: by its old name; write b there"),
        ("{b: at}", "renames.b: partition_by names 'at'; write b there"),
        ("{b: [a]}", "renames.b: is a list; write the column's old name"),
        ("[a]", "renames: is a list; write a mapping"),
    ],
)
def test_renames_that_can_not_be_name_what_to_write(renames: str, told: str) -> None:
    rule = f"{{to: shop.b, key: [id], columns: {{amount: int}}, partition_by: [day(at)],\n      renames: {renames}}}"
    text = problem(f"streams:\n  shop:\n    tables:\n     a.b: {rule}\n")
    assert text.startswith(f"firn.yaml:5: streams.shop.tables.a.b.{told}")


def test_what_orders_the_changes_is_not_renamed() -> None:
    told = problem("streams: {shop: {order_by: version, tables: {a.b: {to: shop.b, renames: {rev: version}}}}}")
    assert "streams.shop.order_by: 'version' is renamed in 'a.b', and changes under its other name" in told


def test_renames_do_not_go_round_in_a_circle() -> None:
    told = problems("streams: {shop: {tables: {a.b: {to: shop.b, renames: {b: a, c: b, a: c}}}}}")
    assert len(told) == 3
    assert "goes round in a circle with 'a'; write only the last new name of the column" in told[0]


@pytest.mark.parametrize(
    ("envelope", "rule", "told"),
    [
        ("debezium", "update: patch", "a.b.update: is for plain rows, and these events say it themselves; write enve"),
        ("rows", "mode: append, update: patch", "a.b.update: changes rows, and with mode: append none is changed; wr"),
        (
            "rows",
            "key: [id], update: patch, schema: {fields: [{name: id, type: int64, required: true}, {name: n, type: bool,"
            " default: true}]}",
            "a.b.schema: says what 'n' is where a row leaves it out, and a patch keeps what was there; take",
        ),
        ("rows", "key: [id], update: merge", "a.b.update: 'merge' is not a way to update; write replace or patch"),
    ],
)
def test_what_can_not_be_patched(envelope: str, rule: str, told: str) -> None:
    text = f"streams: {{shop: {{envelope: {envelope}, tables: {{a.b: {{to: shop.b, {rule}}}}}}}}}"
    assert told in "".join(problems(text))


def test_a_variant_is_no_key_and_no_partition() -> None:
    rule = "to: shop.orders, key: [a], format: 3, columns: {a: variant, b: variant}, partition_by: [b]"
    found = "".join(problems(f"streams:\n  shop:\n    tables:\n      public.orders: {{{rule}}}\n"))
    assert "'a' is a variant, and a variant is no key; name other columns" in found
    assert "partition_by: b is a variant, which nothing can be partitioned by" in found
