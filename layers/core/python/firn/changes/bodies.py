"""A request's body as bytes: is it text, is it one array or values one after another, and where each of them is."""

import codecs
import json
import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw

from firn.errors import RequestError

_CHUNK = 1 << 20
_ARRAY = msgspec.json.Decoder(list[Raw])
_VALUE = msgspec.json.Decoder(Raw)
_SCANNER = json.JSONDecoder()
_FIRST = 1 << 14  # bytes: a few bare events
_SPACE = b" \t\r\n"


def readable(body: bytes, *, lines: bool) -> tuple[bytes, bool]:
    """The body without a byte order mark, and whether it is one array. Raises RequestError 400 not_utf8 or empty.

    msgspec does not look at the encoding of what it passes on raw, so all of the body is checked here.
    """
    body = body.removeprefix(codecs.BOM_UTF8)
    if not body.isascii():
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:  # in pieces: the text of a whole body could take four times its size
            for start in range(0, len(body), _CHUNK):
                decoder.decode(body[start : start + _CHUNK], final=start + _CHUNK >= len(body))
        except UnicodeDecodeError:
            raise RequestError(400, "not_utf8", "the body is not UTF-8: send JSON text") from None
    content = body[:64].lstrip(_SPACE) or body.lstrip(_SPACE)
    if not content:
        raise RequestError(400, "empty", "the body is empty: send a JSON object, an array of them, or NDJSON")
    return body, content.startswith(b"[") and not lines


def elements(body: bytes, *, array: bool) -> list[bytes]:
    """Each event's own bytes, in order. Raises RequestError 400 bad_json for an array that is not JSON.

    What one event alone is to blame for (nesting, half of a surrogate pair) does not spoil an array. Values one after
    another that are not all JSON are taken line by line, so that a broken line costs only itself.
    """
    try:
        return list(map(bytes, _ARRAY.decode(body) if array else _VALUE.decode_lines(body)))
    except (msgspec.DecodeError, RecursionError) as error:
        if not array:
            lines = [line.strip(_SPACE) for line in body.split(b"\n")]
            return [line for line in lines if line]
        if isinstance(error, msgspec.DecodeError) and not re.search("escape|surrogate", str(error)):
            raise RequestError(400, "bad_json", f"the body is no JSON: {error}") from None
        return list(_split(body))


_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},"]', re.DOTALL)


def _split(body: bytes) -> Iterator[bytes]:
    """The elements of an array that no decoder gets through: brackets counted, strings skipped."""
    depth, start = 0, 0
    for token in _TOKEN.finditer(body):
        sign = token[0]
        if sign in (b"[", b"{"):
            depth += 1
            if depth == 1:
                start = token.end()
        elif sign in (b"]", b"}"):
            depth -= 1
            if depth == 0:
                yield body[start : token.start()].strip(_SPACE)
                if body[token.end() :].strip(_SPACE):
                    break
                return
        elif sign == b'"':
            break  # a string without an end
        elif sign == b"," and depth == 1:
            yield body[start : token.start()].strip(_SPACE)
            start = token.end()
    raise RequestError(400, "bad_json", "the body is no JSON: the array does not end where the body does")


def first_elements(body: bytes, *, array: bool) -> Iterator[bytes]:
    """The events from the start, one at a time, without decoding the rest; ends early where the text is not JSON."""
    separators = " \t\r\n," if array else " \t\r\n"
    size, text, at = 0, "", 0
    while True:
        while at < len(text) and text[at] in separators:
            at += 1
        try:
            _, end = _SCANNER.raw_decode(text, at)
        except (ValueError, RecursionError):
            if size >= len(body):
                return
            # Not all of the event is in the text yet. What was read before stays where it was.
            size = size * 16 or _FIRST
            text = body[:size].decode("utf-8", errors="ignore")
            if array and at == 0:
                at = text.index("[") + 1 if "[" in text else 0
            continue
        yield text[at:end].encode()
        at = end
