"""The reference of firn.yaml, from the JSON Schema by which editors complete it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from firn_cli.config_schema import schema

_HEAD: Final = """# firn.yaml, every setting

Generated from the JSON Schema of `firn.yaml`, which editors complete and check by. Save it beside your file and name it
in the first line:

```sh
firn config schema > firn.schema.json
```

```yaml
# yaml-language-server: $schema=firn.schema.json
catalog: {type: sql}
```

The schema knows how the file is built; what the settings mean to each other only `firn publish --check` can tell, which
names all problems by line. [configuration.md](../configuration.md) explains the settings with examples. The same schema
as a file: [firn.schema.json](firn.schema.json).

"""


def page() -> str:
    """The page's Markdown: a table for each part of the file."""
    whole = schema()
    return _HEAD + "\n".join(_lines("firn.yaml", whole, whole["$defs"]))


def _lines(path: str, section: Mapping[str, Any], named: Mapping[str, Any]) -> Iterator[str]:
    yield f"## `{path}`\n"
    yield section["description"] + "\n"
    yield "| setting | what | value |\n|---|---|---|"
    below = []
    for name, one in section["properties"].items():
        inner, suffix = _inner(one)
        own = name if path == "firn.yaml" else f"{path}.{name}"
        shown = f"[`{name}`](#{_slug(own + suffix)})" if inner else f"`{name}`"
        must = " **required**" if name in section.get("required", ()) else ""
        yield f"| {shown}{must} | {_text(one, inner)} | {_value(one)} |"
        if inner:
            below.append((own + suffix, inner))
    yield ""
    for own, inner in below:
        yield from _lines(own, inner, named)


def _inner(one: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """The section under a setting, and what its path adds where there are several by name."""
    if "properties" in one:
        return one, ""
    below = one.get("additionalProperties")
    if isinstance(below, dict) and "properties" in below:
        return below, ".NAME"
    return None, ""


def _slug(path: str) -> str:
    return path.lower().replace(".", "")


def _text(one: Mapping[str, Any], inner: Mapping[str, Any] | None) -> str:
    text: str = one.get("description") or (inner or {}).get("description", "")
    return text.replace("|", "\\|").replace("{", "&#123;")


def _value(one: Mapping[str, Any]) -> str:
    if "enum" in one:
        return ", ".join(f"`{'null' if word is None else word}`" for word in dict.fromkeys(one["enum"]))
    kinds = one.get("anyOf", [one])
    words = next((kind["items"]["enum"] for kind in kinds if "enum" in kind.get("items", {})), None)
    if words:
        return ", ".join(f"`{word}`" for word in words) + ", one or a list"
    if any(kind.get("type") == "integer" for kind in kinds):
        number = next(kind for kind in kinds if kind.get("type") == "integer")
        return f"{number['minimum']:,} to {number['maximum']:,}" if "maximum" in number else f"from {number['minimum']}"
    if any(kind.get("type") == "boolean" for kind in kinds):
        return "`true`, `false`"
    if any(kind.get("type") == "array" for kind in kinds):
        return "a text or a list"
    pattern = next((kind["pattern"] for kind in kinds if kind.get("type") == "string" and "pattern" in kind), "")
    if "smhd" in pattern:
        return "a duration: `60s`, `5m`, `1h`, `7d`"
    if "[bB]" in pattern:
        return "a size: `500KB`, `100MB`, `1GiB`"
    return "a rate: `5MB/s`" if "/" in pattern else "a mapping" if "object" in one.get("type", ()) else "a text"
