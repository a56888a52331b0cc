"""Many JSON objects as lines of one text, to be decoded in one call."""


def one_a_line(lines: bytes, count: int) -> bool:
    """Whether `count` texts, joined by line breaks to `lines`, can be read back from it one by one.

    If so, and if msgspec's `decode_lines` finds `count` values in them, then each text is one JSON object: no text
    holds a line break, and between } and { no JSON value goes on, nor does a string across the end of a line.
    """
    return lines[:1] == b"{" and lines.count(b"}\n{") == lines.count(b"\n") == count - 1
