"""Many JSON objects as lines of one text, to be decoded in one call."""

from collections.abc import Sequence


def one_a_line(lines: bytes, count: int, *, objects: bool) -> bool:
    """Whether `count` texts, joined by line breaks to `lines`, can be read back from it one by one.

    `objects`: each text starts with { and ends with }. If so, and if msgspec's `decode_lines` finds `count` values in
    them, then each text is one JSON object: no text holds a line break, and between } and { no JSON value goes on, nor
    does a string across the end of a line.
    """
    return objects and count > 0 and lines.count(b"\n") == count - 1


def joined(texts: Sequence[bytes]) -> bytes | None:
    """The texts as lines; None if they can't be read back from them one by one, as `one_a_line` says."""
    lines = b"\n".join(texts)
    objects = {text[:1] for text in texts} == {b"{"} and {text[-1:] for text in texts} == {b"}"}
    return lines if one_a_line(lines, len(texts), objects=objects) else None
