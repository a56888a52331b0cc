"""The lines of firn.yaml for a source, put into the file that is there. Pure."""

import json
import re
from collections.abc import Sequence
from typing import Final

from firn.config.pull_source import PullSource
from firn_cli.source_checks import PublishedTable

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_WORDS: Final = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null")


def stream_lines(stream: str, tables: Sequence[PublishedTable]) -> list[str]:
    """The stream that a source feeds, below `streams:`."""
    lines = [f"  {stream}:", "    tables:"]
    for table in tables:
        lines += [f"      {_text(f'{table.schema}.{table.name}')}:", f"        to: {_text(_target(stream, table))}"]
        if table.key:
            lines.append(f"        key: [{', '.join(map(_text, table.key))}]")
        else:
            lines.append("        mode: append                  # no key: every change becomes a row")
    return lines


def source_lines(source: PullSource, url: str) -> list[str]:
    """The source, below `sources:`. `url`: its address without a password."""
    lines = [
        f"  {source.name}:",
        f"    postgres: {json.dumps(url)}",
        f"    slot: {source.slot}",
        f"    publication: {_text(source.publication)}" if source.publication else f"    plugin: {source.plugin}",
        f"    stream: {source.stream}",
    ]
    if source.secret:
        lines.append(f"    secret: {json.dumps(source.secret)}")
    if source.iam:
        lines.append("    iam: true")
    return lines


def added(text: str, section: str, lines: Sequence[str]) -> str | None:
    """`text` with the lines below its top-level `section:`, which is put at the end where there is none. None where
    the section is not written over several lines: a person has to."""
    found = re.search(rf"^{section}:[ \t]*(#.*)?$", text, re.MULTILINE)
    block = "\n".join(lines) + "\n"
    if found is not None:
        end = found.end() + 1
        return text[:end].rstrip("\n") + "\n" + block + text[end:]
    if re.search(rf"^{section}:", text, re.MULTILINE):
        return None
    return f"{text.rstrip(chr(10))}\n\n{section}:\n{block}".lstrip("\n")


def _target(stream: str, table: PublishedTable) -> str:
    namespace = re.sub(r"\W+", "_", stream) if table.schema == "public" else table.schema
    return f"{namespace}.{table.name}"


def _text(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and not _WORDS.fullmatch(text)
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())
