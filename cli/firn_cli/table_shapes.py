"""What firn.yaml says of a table's files and of its care, in the words of JSON Schema."""

from collections.abc import Mapping
from typing import Final, get_args

from firn.config.file_writing import NEWEST_FORMAT, OLDEST_FORMAT
from firn.config.file_writing_reader import Codec
from firn.config.maintenance import FEWEST_SNAPSHOTS, MOST_SNAPSHOTS, Expirer
from firn.config.model import Write
from firn.config.storage_classes import known_classes
from firn_cli.json_shapes import TEXT, Schema, flag, free, number, quantity, section, texts, whole, words

DURATION: Final = r"^\s*\d{1,12}\s*[smhdSMHD]\s*$"
SIZE: Final = r"^\s*\d{1,12}\s*([kKmMgGtT][iI]?)?[bB]\s*$"


def written() -> Mapping[str, Schema]:
    """What rules, pipelines and views say of their table's files."""
    bloom = section(
        "",
        {
            "columns": texts("The columns, or key."),
            "fpp": number("Share of wrong hits, 0.0001 to 0.5.", "0.01"),
            "max_bytes": quantity("Largest filter.", SIZE, "1MB"),
        },
        required=["columns"],
    )
    return {
        "write": words("How rows leave a mirror.", get_args(Write), "merge-on-read"),
        "partition_by": texts("Columns, or day(c), bucket(16, c), truncate(8, c), …."),
        "bloom": {"description": "Columns with Bloom filters, or key.", "anyOf": [texts(""), bloom]},
        "compression": words("Of data files.", get_args(Codec), "zstd"),
        "compression_level": whole("1 to 22 of zstd, 1 to 9 of gzip.", 1, 22, "3"),
        "target_file_size": quantity("About how large data files become.", SIZE, "128MB"),
        "properties": free("Further properties of the Iceberg table that say how it is written.", TEXT),
        "format": whole("Iceberg's format version.", OLDEST_FORMAT, NEWEST_FORMAT, "2"),
        "care": care(),
    }


def common_care() -> Schema:
    """The care of all tables."""
    found = care()
    named = texts("Tables that no stream feeds and care looks after; reports.* names several.", null=True)
    return found | {"properties": {"also": named, **found["properties"]}}


def care() -> Schema:
    """The care of one table."""
    return section(
        "How tables are looked after.",
        {
            "compact": section(
                "Rewriting files.",
                {
                    "on": flag("false: large files are never rewritten.", "true"),
                    "target": quantity("About how large data files become.", SIZE, "128MB"),
                    "budget": quantity("How much of a table an hour may rewrite.", SIZE, "2GB"),
                    "sort_by": texts("Columns that order the rows of files.", null=True),
                    "zorder_by": texts("Or columns along a curve through them.", null=True),
                },
            ),
            "expire": section(
                "Letting snapshots go.",
                {
                    "by": words("Who does it: a REST catalog itself, else Firn.", get_args(Expirer), None),
                    "keep": quantity("Younger snapshots stay.", DURATION, "5d"),
                    "at_least": whole("So many stay however old.", FEWEST_SNAPSHOTS, MOST_SNAPSHOTS, "100"),
                    "at_most": whole("No more than so many stay.", FEWEST_SNAPSHOTS, MOST_SNAPSHOTS, "1000"),
                    "orphans_after": quantity("Unknown files go when older.", DURATION, "3d"),
                },
            ),
            "statistics": section(
                "What optimizers are told of distinct values and partitions.",
                {
                    "columns": texts("Columns whose distinct values are counted.", null=True),
                    "partitions": flag("What each partition holds.", "false"),
                    "every": quantity("Not more often.", DURATION, "1d"),
                },
            ),
            "tier": section(
                "Moving cold files to a cheaper class.",
                {
                    "cold_after": quantity(
                        "Not written for so long: cold.",
                        r"^\s*(\d{1,12}\s*[smhdSMHD]|[nN][eE][vV][eE][rR])\s*$",
                        "never",
                    ),
                    "predictive": flag("Or where recorded reads say that it saves money.", "false"),
                    "class": words("Where cold files go.", known_classes(None), "the first of the storage"),
                },
            ),
        },
    )
