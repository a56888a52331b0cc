"""A request's body as bytes: is it text, is it one array or values one after another, and where each of them is."""

import codecs
import json
import re
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

import msgspec
from msgspec import Raw, Struct

from firn.changes.envelopes.limits import MOST_TOKENS, TOKEN, EventLimits
from firn.errors import RequestError

# A body of so many bytes is decoded before its events are counted: it holds no more than memory does.
COUNTED: Final = 4 * 1024 * 1024
_VALUES_EACH: Final = 60  # of an event in a larger body, where nothing tells cheaply which of its values are events
_CHUNK = 1 << 20
_ARRAY = msgspec.json.Decoder(list[Raw])
_VALUE = msgspec.json.Decoder(Raw)
_SCANNER = json.JSONDecoder()
_FIRST = 1 << 14  # bytes: a few bare events
_SPACE = b" \t\r\n"
_FIRST_SIGN, _LAST_SIGN = itemgetter(0), itemgetter(-1)
_LINE = re.compile(rb"[^ \t\r\n][^\n]*")


class _Object(Struct, gc=False):
    """Any JSON object, as small as can be."""


_COUNT = msgspec.json.Decoder(list[_Object | None])
_COUNT_LINES = msgspec.json.Decoder(_Object | None)


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


def readable_together(body: bytes, limits: EventLimits, *, array: bool, exact: bool) -> bool:
    """Whether the events of a body may be decoded at once. Raises RequestError 413 for a large one of more events than
    a request may hold, before they are decoded.

    `exact`: to decode them costs so much that each is counted first; else those of a body of few objects are not.
    """
    if len(body) <= COUNTED:
        return True
    objects = body.count(b"{")
    if not exact and objects <= 2 * limits.events:
        return True
    count = _count(body, objects, limits, array=array)
    limits.check_events(count or 0)
    return count is not None


def _count(body: bytes, objects: int, limits: EventLimits, *, array: bool) -> int | None:
    """How many events the body holds, if each is an object or null; None if not. `objects`: at any depth."""
    if objects > 16 * limits.events:
        limits.check_events(objects)
    try:
        return len(_COUNT.decode(body) if array else _COUNT_LINES.decode_lines(body))
    except (msgspec.DecodeError, RecursionError):
        return None


def count_members(array: bytes, limits: EventLimits) -> int | None:
    """How many members an array of objects and nulls has; None if it is none. Raises RequestError 413 for more than a
    request may hold, before they are decoded."""
    count = _count(array, array.count(b"{"), limits, array=True)
    limits.check_events(count or 0)
    return count


def objects_by_line(body: bytes) -> list[bytes]:
    """The lines of a body of objects, one a line; none if that is not how they stand.

    A line break between a closing and an opening brace is between two objects: within one there would be a comma.
    """
    lines = body.strip(_SPACE).split(b"\n")
    plain = all(lines) and set(map(_FIRST_SIGN, lines)) == {b"{"[0]} and set(map(_LAST_SIGN, lines)) == {b"}"[0]}
    return lines if plain else []


# A backslash and what it escapes; the group: half of a surrogate pair, which JSON's grammar has and no decoder takes.
_ESCAPE = re.compile(rb"\\(?:(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)


def is_json_object(element: bytes) -> bool:
    """Whether an event that could not be read is a JSON object all the same: nested too deeply, with half of a
    surrogate pair, or with text of which Firn wants more, such as a document within it."""
    if element.lstrip(_SPACE)[:1] != b"{":
        return False
    try:
        _VALUE.decode(_ESCAPE.sub(lambda found: b"?" if found[1] else found[0], element))
    except msgspec.DecodeError:
        return False
    except RecursionError:
        return True
    return True


# Arrays of what may be events or rows of their own (parts.py), and where two objects of an array meet.
_SEVERAL = re.compile(rb'"(?:change|data|Records)"[ \t\r\n]*:[ \t\r\n]*\[')
_ADJACENT = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{")


def count_alone(body: bytes, limits: EventLimits) -> int:
    """How many events of a queue message may have to be read one by one, those that an event holds too; 1 for a message
    that is refused whole."""
    try:
        body, array = readable(body, lines=False)
        count = len(elements(body, limits, array=array))
    except RequestError:
        return 1
    return max(count, len(_ADJACENT.findall(body)) + 1) if _SEVERAL.search(body) else count


def elements(body: bytes, limits: EventLimits, *, array: bool, alone: bool = True) -> list[bytes | Raw]:
    """Each event's own bytes, in order. Raises RequestError 400 bad_json for an array that is not JSON, 413
    too_many_events for more than may be read one by one (`alone`), or in one request.

    What one event alone is to blame for (nesting, half of a surrogate pair) does not spoil an array. Values one after
    another that are not all JSON are taken line by line, so that a broken line costs only itself.
    """
    if alone and len(body) > COUNTED:
        count = _count(body, body.count(b"{"), limits, array=array)
        if count is None and not array:
            return _checked(_lines(body, limits), body, limits)
        limits.check_events(body.count(b",") // _VALUES_EACH if count is None else count, alone=True)
    found: list[bytes | Raw]
    try:
        found = list(_ARRAY.decode(body) if array else _VALUE.decode_lines(body))
    except (msgspec.DecodeError, RecursionError) as error:
        if not array:
            return _checked(_lines(body, limits), body, limits)
        if isinstance(error, msgspec.DecodeError) and not re.search("escape|surrogate", str(error)):
            raise RequestError(400, "bad_json", f"the body is not JSON: {error}") from None
        if len(body) > limits.size:
            raise _too_much() from None
        found = list(_split(body))
    limits.check_events(len(found), alone=alone)
    return _checked(found, body, limits)


def _checked(found: list[bytes | Raw], body: bytes, limits: EventLimits) -> list[bytes | Raw]:
    if len(body) > limits.size:
        limits.check_size([memoryview(one) for one in found])
    return found


def _lines(body: bytes, limits: EventLimits) -> list[bytes | Raw]:
    found: list[bytes | Raw] = []
    for line in _LINE.finditer(body):
        found.append(line[0].rstrip(_SPACE))
        if len(found) > limits.alone:
            limits.check_events(len(found), alone=True)
    return found


def _split(body: bytes) -> Iterator[bytes]:
    """The elements of an array that no decoder gets through: brackets counted, strings skipped."""
    depth, start = 0, 0
    for number, token in enumerate(TOKEN.finditer(body)):
        sign = token[0]
        if number > MOST_TOKENS:
            raise _too_much()
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
    raise RequestError(400, "bad_json", "the body is not JSON: the array does not end where the body does")


def _too_much() -> RequestError:
    return RequestError(
        413,
        "too_many_events",
        "an event of the body is nested too deeply, or holds half of a surrogate pair, and the body is too large to "
        "look for it: split the request",
    )


_SPACES = re.compile(r"[ \t\r\n]*")
_SEPARATORS = re.compile(r"[ \t\r\n,]*")


def first_elements(body: bytes, *, array: bool) -> Iterator[bytes]:
    """The events from the start, one at a time, without decoding the rest; ends early where the text is not JSON, or
    its events are larger than COUNTED."""
    separators = _SEPARATORS if array else _SPACES
    size, text, at = 0, "", 0
    while True:
        if (found := separators.match(text, at)) is not None:
            at = found.end()
        try:
            _, end = _SCANNER.raw_decode(text, at)
        except (ValueError, RecursionError):
            if size >= min(len(body), COUNTED):
                return
            # Not all of the event is in the text yet. What was read before stays where it was.
            size = size * 16 or _FIRST
            text = body[:size].decode("utf-8", errors="ignore")
            if array and at == 0:
                at = text.index("[") + 1 if "[" in text else 0
            continue
        yield text[at:end].encode()
        at = end
