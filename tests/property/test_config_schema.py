"""The JSON Schema of firn.yaml and its reader: what the schema refuses the reader refuses, and what is right passes."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from firn.config.reader import parse
from firn.config.schema_files import whole
from firn.errors import ConfigError
from firn_cli.config_schema import schema

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
UNKNOWN = "zzqq"


def examples() -> dict[str, str]:
    """Every whole firn.yaml of the project: files, and blocks of the documentation."""
    found = {
        str(file.relative_to(ROOT)): file.read_text()
        for file in [ROOT / "firn.yaml", *ROOT.glob("examples/**/firn*.yaml")]
    }
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        blocks = re.findall(r"^```yaml[^\n]*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        found |= {
            f"{page.relative_to(ROOT)} {at}": block
            for at, block in enumerate(blocks)
            if re.search("^streams:", block, re.MULTILINE) and "…" not in block
        }
    return found


EXAMPLES = examples()


def tree(text: str) -> Any:
    """As an editor has it: words of YAML 1.2's core schema, so that `on` and dates are texts."""
    return json.loads(json.dumps(yaml.load(text, Editor), default=str))


class Editor(yaml.SafeLoader):
    """YAML as editors read it."""

    yaml_implicit_resolvers: ClassVar = {
        key: [(tag, pattern) for tag, pattern in found if not tag.endswith((":timestamp", ":bool")) or key in "tTfF"]
        for key, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def refuses(text: str) -> str:
    """What the reader says, "" if it takes the text."""
    try:
        parse(text)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_what_the_reader_takes_of_our_own_files_the_schema_takes(name: str) -> None:
    text = EXAMPLES[name]
    try:
        parse(whole(text, lambda _: b'{"fields": [{"name": "id", "type": "int64"}]}'))
    except ConfigError:
        pytest.skip("a part of a file, or one that is wrong on purpose")
    assert [error.message for error in VALIDATOR.iter_errors(tree(text))] == []


def test_the_examples_are_many() -> None:
    assert len(EXAMPLES) > 25
    assert sum(not refuses(text) for text in EXAMPLES.values()) > 20


def sections(found: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Every mapping of the schema that takes settings of given names only: where it is, and the names."""
    if not isinstance(found, dict):
        return
    if found.get("additionalProperties") is False:
        yield path, set(found["properties"])
    for name, below in found.get("properties", {}).items():
        yield from sections(below, (*path, name))
    if isinstance(found.get("additionalProperties"), dict):
        yield from sections(found["additionalProperties"], (*path, "x.y" if path[-1:] == ("tables",) else "x"))
    for one in found.get("anyOf", ()):
        yield from sections(one, path)


SECTIONS = dict(sections(SCHEMA))


@pytest.mark.parametrize("path", sorted(SECTIONS), ids=".".join)
def test_every_section_has_the_settings_that_the_reader_knows(path: tuple[str, ...]) -> None:
    top: dict[str, Any] = {"streams": {"x": {"tables": {"x.y": {"to": "a.b"}}}}}
    below = top
    for key in path:
        below = below.setdefault(key, {})
    below |= {UNKNOWN: 1}
    if path[-1:] == ("bloom",):
        below["columns"] = "key"
    if "pipelines" in path and path[-1] != "x":
        target = "" if "files" in path else "INSERT INTO a.c "
        top["streams"]["x"]["pipelines"]["x"]["sql"] = f"{target}SELECT * FROM x.y"
    if "views" in path and path[-1] != "x":
        top["views"]["x"]["sql"] = "SELECT * FROM a.b"
    if path[:1] == ("sources",):
        below["postgres"] = "postgresql://a@localhost/b"
    told = re.findall(rf"{UNKNOWN}: is not a setting; write (?:one of )?([^\n]*)", refuses(json.dumps(top)))
    names = {name for line in told for name in re.split(r", | or ", line)}
    assert names == SECTIONS[path], f"{'.'.join(path)}: the reader's settings are not the schema's"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield from places(below, (*path, key))


GOOD = sorted(name for name, text in EXAMPLES.items() if not refuses(text))
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**7), st.floats(0, 10, width=16), st.just([]), st.just({}),
    st.sampled_from(["", " ", "key", "60s", "100MB", "5MB/s", "never", "append", "none", "yes", "1", "a.b", "iam"]),
    st.lists(st.sampled_from(["id", "http", "day(at)", "source"]), max_size=2),
    st.dictionaries(st.sampled_from(["to", "by", "columns", "every", "fields", "x"]), st.just("1s"), max_size=2),
)  # fmt: skip


@given(st.data())
def test_what_the_schema_refuses_the_reader_refuses(data: st.DataObject) -> None:
    changed = copy.deepcopy(tree(EXAMPLES[data.draw(st.sampled_from(GOOD))]))
    for _ in range(data.draw(st.integers(1, 3))):
        known = [place for place in places(changed) if place]
        if not known:
            break
        path = data.draw(st.sampled_from(known))
        above = changed
        for key in path[:-1]:
            above = above[key]
        how = data.draw(st.sampled_from(["replace", "rename", "add", "remove"]))
        if how == "replace":
            above[path[-1]] = data.draw(VALUES)
        elif how == "remove":
            del above[path[-1]]
        elif isinstance(above, dict):
            name = data.draw(
                st.sampled_from([UNKNOWN, "Key", "to", "mode", "files", "sql", "kafka", "auth", "schema", "bloom"])
            )
            above[name] = above.pop(path[-1]) if how == "rename" else data.draw(VALUES)
    wrong = jsonschema.exceptions.best_match(VALIDATOR.iter_errors(changed))
    if wrong is not None:
        assert refuses(json.dumps(changed)), f"the schema refuses what the reader takes: {wrong.message} in {changed}"
