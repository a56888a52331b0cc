"""Where tables and their catalog live: the two addresses in firn.yaml, checked as text. Nothing is opened here."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from firn.config.written_secrets import secret_in

SCHEMES: Final = ("s3", "gs", "abfss", "file")
_EXAMPLES: Final = {
    "s3": "s3://bucket/prefix",
    "gs": "gs://bucket/prefix",
    "abfss": "abfss://container@account.dfs.core.windows.net/prefix",
    "file": "file:///absolute/path",
}
# What other tools call the same storages. Of Azure's the account is part of the address: a table's readers need it.
_ALSO: Final = {
    "s3a": "s3", "s3n": "s3", "gcs": "gs", "az": "abfss", "adl": "abfss", "abfs": "abfss", "azure": "abfss",
    "wasb": "abfss", "wasbs": "abfss",
}  # fmt: skip
_AZURE: Final = re.compile(r"(?P<container>[^/@]*)@(?P<account>[^/@.]*)\.dfs\.core\.windows\.net(/.*)?", re.DOTALL)
# "Naming and Referencing Containers" and "Storage account overview" of Azure's documents; "Buckets" of Google's.
_CONTAINER: Final = re.compile(r"[a-z0-9](-?[a-z0-9]){2,62}")
_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")
_GCS_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def read_warehouse(text: str) -> str:
    """The warehouse's address without a slash at its end. Raises ValueError, whose text says what to write."""
    return read_place(text, SCHEMES)


def is_cloud(address: str) -> bool:
    """Whether it is on Azure or Google, in the form that `read_warehouse` gives."""
    return address.startswith(("abfss://", "gs://"))


def read_staging(text: str, schemes: Sequence[str]) -> str:
    """The same of staged data, whose account may be the environment's: `az://container/prefix` is taken too."""
    _expect_no_secret(text)
    found = re.fullmatch(r"az://([^/]*)(/.*)?", text.strip().rstrip("/"), re.DOTALL)
    if found is None:
        return read_place(text, schemes)
    if not _CONTAINER.fullmatch(found[1]):
        raise ValueError(f"{found[1]!r} is not a container's name; write az://container/prefix")
    return found[0]


def read_place(text: str, schemes: Sequence[str]) -> str:
    """An address that jobs write to, without a slash at its end. `schemes`: those of SCHEMES that are taken. Raises
    ValueError, whose text says what to write."""
    _expect_no_secret(text)
    found = _URL.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an address; write s3://bucket/prefix, or file:///absolute/path for a folder")
    scheme, rest = found.group(1), found.group(2).rstrip("/")
    if scheme not in schemes:
        raise ValueError(_refusal(scheme, schemes))
    if scheme == "file" and not rest.startswith("/"):
        raise ValueError(f"{text!r} is not an absolute path; write file:///path, with three slashes")
    if scheme != "file" and (not rest or rest.startswith("/")):
        raise ValueError(f"{text!r} names no bucket; write {_EXAMPLES[scheme]}")
    if scheme == "abfss":
        _check_azure(rest)
    if scheme == "gs" and not _GCS_BUCKET.fullmatch(rest.partition("/")[0]):
        raise ValueError(f"{rest.partition('/')[0]!r} is not a bucket's name; write {_EXAMPLES[scheme]}")
    return f"{scheme}://{rest}"


def _expect_no_secret(text: str) -> None:
    if (held := secret_in(text)) is not None:
        raise ValueError(
            f"holds {held} and an address is stored beside the data; take it out, and give it by the environment "
            "(docs/clouds.md)"
        )


def _refusal(scheme: str, schemes: Sequence[str]) -> str:
    same = _ALSO.get(scheme.lower(), scheme.lower())
    if same in SCHEMES and same not in schemes:
        return f"{scheme}:// is not supported here; write {' or '.join(_EXAMPLES[one] for one in schemes)}"
    close = [same] if same in schemes else get_close_matches(scheme.lower(), schemes, 1)
    written = " or ".join(_EXAMPLES[one] for one in close) or f"{', '.join(schemes[:-1])} or {schemes[-1]}://"
    return f"{scheme}:// is not a storage that Firn writes to; write {written}"


def _check_azure(rest: str) -> None:
    """Raises ValueError if it is not container@account.dfs.core.windows.net, with a path or without."""
    found = _AZURE.fullmatch(rest)
    if found is None:
        raise ValueError(f"{rest.partition('/')[0]!r} names no container of an account; write {_EXAMPLES['abfss']}")
    if not _CONTAINER.fullmatch(found["container"]):
        raise ValueError(f"{found['container']!r} is not a container's name; write {_EXAMPLES['abfss']}")
    if not _ACCOUNT.fullmatch(found["account"]):
        raise ValueError(f"{found['account']!r} is not a storage account's name; write {_EXAMPLES['abfss']}")


def read_catalog_uri(text: str) -> str:
    """The catalog's address as it is. Raises ValueError if it (or one of several, with commas) holds a secret."""
    if (held := secret_in(text)) is not None:
        raise ValueError(
            f"holds {held} and this file is stored beside the data; take it out, and write the place of it: "
            "properties: {firn.credential: 'secretsmanager:NAME'}"
        )
    return text.strip()
