"""What the EMR Serverless API accepts, read from botocore's service model: routes, required members, patterns, ranges.

Nothing of the API is typed in by hand here, so what this rejects is what the service's own model rejects.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import botocore.session
from botocore.model import ListShape, MapShape, OperationModel, Shape, StructureShape

STATUS = {
    "ValidationException": 400,
    "ResourceNotFoundException": 404,
    "ConflictException": 409,
    "InternalServerException": 500,
}


class ApiError(Exception):
    """An error of the API: `code` is the exception's name in the service model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code]


class Invalid(ApiError):
    """The request is not what the service takes."""

    def __init__(self, message: str) -> None:
        super().__init__("ValidationException", message)


_TYPES: dict[str, type] = {
    "structure": dict,
    "map": dict,
    "list": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "long": int,
}


@dataclass(frozen=True)
class Route:
    """One operation: its method, its URI as a pattern with the members it binds, and its model."""

    name: str
    method: str
    pattern: re.Pattern[str]
    model: OperationModel


@cache
def routes() -> tuple[Route, ...]:
    """All operations of the service; longer URIs first, so that the most specific one matches."""
    model = botocore.session.get_session().get_service_model("emr-serverless")
    found = []
    for name in model.operation_names:
        operation = model.operation_model(name)
        uri = operation.http["requestUri"].split("?")[0]
        # An ARN holds slashes, and WSGI has undone their escape; everything else is one segment.
        pattern = re.sub(r"\{resourceArn\}", r"(?P<resourceArn>.+)", uri)
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)
        found.append(Route(name, operation.http["method"], re.compile(pattern + "/?"), operation))
    return tuple(sorted(found, key=lambda route: -len(route.model.http["requestUri"])))


def match(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """The operation that a request calls, and the members in its path."""
    for route in routes():
        found = route.pattern.fullmatch(path)
        if route.method == method and found:
            return route, found.groupdict()
    return None


def parameters(route: Route, bound: Mapping[str, str], query: str, body: bytes) -> dict[str, Any]:
    """The operation's input from path, query string and JSON body. Unknown members are dropped, as the service does.

    Raises ApiError ValidationException with all that is wrong in the service's words.
    """
    shape: StructureShape | None = route.model.input_shape
    if shape is None:
        return {}
    try:
        sent = json.loads(body) if body else {}
    except ValueError as error:
        raise Invalid(f"The request body is not JSON: {error}") from error
    if not isinstance(sent, dict):
        raise Invalid("The request body must be a JSON object.")
    strings = parse_qs(query, keep_blank_values=True)
    values: dict[str, Any] = {}
    for name, member in shape.members.items():
        location = member.serialization.get("location")
        wire = member.serialization.get("name", name)
        if location == "uri" and wire in bound:
            values[name] = bound[wire]
        elif location == "querystring" and wire in strings:
            values[name] = _from_query(member, strings[wire])
        elif location is None and sent.get(wire) is not None:
            values[name] = sent[wire]
    wrong = list(violations(shape, values, ""))
    if wrong:
        count = f"{len(wrong)} validation error{'s' * (len(wrong) > 1)} detected"
        raise Invalid(f"{count}: {'; '.join(wrong)}")
    return values


def violations(shape: Shape, value: Any, where: str) -> Iterator[str]:
    """What in `value` breaks the model's constraints, in the service's words."""
    kind = _TYPES.get(shape.type_name)
    if kind is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        yield f"Value at '{where}' failed to satisfy constraint: Member must be of type {shape.type_name}"
    elif isinstance(shape, StructureShape):
        for name in shape.required_members:
            if name not in value:
                yield f"Value null at '{_join(where, name)}' failed to satisfy constraint: Member must not be null"
        for name, member in shape.members.items():
            if name in value:
                yield from violations(member, value[name], _join(where, name))
    elif isinstance(shape, MapShape):
        for key, item in value.items():
            yield from violations(shape.key, key, f"{where}.key")
            yield from violations(shape.value, item, _join(where, key))
    elif isinstance(shape, ListShape):
        for index, item in enumerate(value):
            yield from violations(shape.member, item, f"{where}.{index + 1}.member")
    else:
        yield from _scalar_violations(shape, value, where)


def _scalar_violations(shape: Shape, value: Any, where: str) -> Iterator[str]:
    limits = shape.metadata
    at = f"Value '{value}' at '{where}' failed to satisfy constraint: Member must"
    size = len(value) if isinstance(value, str) else value
    noun = "have length" if isinstance(value, str) else "have value"
    if "min" in limits and size < limits["min"]:
        yield f"{at} {noun} greater than or equal to {limits['min']}"
    if "max" in limits and size > limits["max"]:
        yield f"{at} {noun} less than or equal to {limits['max']}"
    if limits.get("enum") and value not in limits["enum"]:
        yield f"{at} satisfy enum value set: [{', '.join(limits['enum'])}]"
    elif "pattern" in limits and isinstance(value, str) and not _matches(limits["pattern"], value):
        yield f"{at} satisfy regular expression pattern: {limits['pattern']}"


def _matches(pattern: str, value: str) -> bool:
    # The model's patterns are Java's; a dot there stands for a newline in what the service accepts (parameters).
    try:
        return re.fullmatch(pattern, value, re.DOTALL) is not None
    except re.error:
        return True


def _from_query(shape: Shape, values: list[str]) -> Any:
    if isinstance(shape, ListShape):
        return values
    text = values[0]
    if shape.type_name in ("integer", "long"):
        return int(text) if re.fullmatch(r"-?\d+", text) else text
    if shape.type_name == "timestamp":
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError as error:
            raise Invalid(f"{text} is not a time in ISO 8601.") from error
    if shape.type_name == "boolean":
        return text == "true"
    return text


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
