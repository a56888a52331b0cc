"""Lifecycle rules as S3 keeps them, for the stack's endpoint: every element that was put comes back.

moto reads the elements that it knows and makes the answer of those: a filter by size is lost, and what is put back is
not what was there. Here the text of the put is kept with the bucket. Two of S3's own checks are made besides, because
rules that AWS refuses would pass here.
"""

import io
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import xmltodict

from firn_local.serving import Held, raw_path, read_body

_KEPT: Final = "firn_lifecycle"  # an attribute of moto's bucket: gone with it
_SMALLEST: Final = "x-amz-transition-default-minimum-object-size"
_MOST: Final = 1_000
_IA_DAYS: Final = 30


def bucket_of(environ: WSGIEnvironment) -> str | None:
    """The bucket whose rules the request is about; None for any other request."""
    bucket, _, key = raw_path(environ).strip("/").partition("/")
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    return bucket if bucket and not key and "lifecycle" in query else None


def answer(
    moto: WSGIApplication, environ: WSGIEnvironment, start_response: StartResponse, bucket: str, account: str
) -> Iterable[bytes]:
    """GET, PUT and DELETE of a bucket's rules. moto says whether it may be; the text is ours."""
    body = read_body(environ)
    method = environ["REQUEST_METHOD"]
    if method == "PUT" and (wrong := _refusal(body)):
        text = f"<Error><Code>{wrong[0]}</Code><Message>{wrong[1]}</Message></Error>".encode()
        start_response("400 Bad Request", [("Content-Type", "application/xml"), ("Content-Length", str(len(text)))])
        return [text]
    held = Held()
    told = b"".join(moto({**environ, "wsgi.input": io.BytesIO(body)}, held))
    if held.status.startswith("2"):
        found = _bucket(bucket, account)
        if method == "PUT":
            setattr(found, _KEPT, (body, environ.get("HTTP_X_AMZ_TRANSITION_DEFAULT_MINIMUM_OBJECT_SIZE")))
        elif method == "DELETE":
            setattr(found, _KEPT, None)
        elif kept := getattr(found, _KEPT, None):
            told, smallest = kept
            headers = [pair for pair in held.headers if pair[0].lower() not in ("content-length", _SMALLEST)]
            held.headers = [
                *headers,
                ("Content-Length", str(len(told))),
                (_SMALLEST, smallest or "all_storage_classes_128K"),
            ]
    start_response(held.status, held.headers)
    return [told]


def rules_of(bucket: Any) -> list[dict[str, Any]]:
    """The rules of moto's bucket, as S3's XML says them: lists where there are several of an element."""
    kept = getattr(bucket, _KEPT, None)
    return _parsed(kept[0]) if kept else []


def many(value: Any) -> list[Any]:
    """An element of XML that may be there once, several times, or not at all."""
    return [] if value is None else value if isinstance(value, list) else [value]


def _parsed(body: bytes) -> list[dict[str, Any]]:
    root = xmltodict.parse(body).get("LifecycleConfiguration") or {}
    return many(root.get("Rule"))


def _refusal(body: bytes) -> tuple[str, str] | None:
    """Error code and message, if S3 would refuse."""
    rules = _parsed(body)
    if len(rules) > _MOST:
        return "InvalidRequest", f"The number of lifecycle rules must not exceed the allowed limit of {_MOST} rules"
    names = [rule.get("ID") for rule in rules]
    if len(set(names)) < len(names):
        return "InvalidArgument", "Rule ID must be unique"
    for rule in rules:
        for move in many(rule.get("Transition")):
            if re.fullmatch("(STANDARD|ONEZONE)_IA", str(move.get("StorageClass"))) and int(move.get("Days", 30)) < 30:
                return (
                    "InvalidArgument",
                    f"'Days' in Transition action must be greater than or equal to {_IA_DAYS} for storageClass "
                    f"'{move['StorageClass']}'",
                )
    return None


def _bucket(name: str, account: str) -> Any:
    from moto.s3.models import s3_backends

    return s3_backends[account]["aws"].get_bucket(name)
