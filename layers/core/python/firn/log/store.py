"""Object storage as Firn uses it: create-if-absent, get, list. The only module that knows obstore and its errors.

Create-if-absent is the only primitive that correctness rests on (a local store has no compare-and-swap), so its one
difficulty is settled here: an answer that got lost. `put_if_absent` repeats the put with the same bytes and, when
the object is there already, reads it back: the same bytes mean that one of our own tries won.
"""

import io
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
import obstore.store
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError

from firn.config.storage_classes import ARCHIVED, RESTORE
from firn.errors import ArchivedObject, FirnError, StorageUnavailable, UnknownOutcome
from firn.log import cloud_stores
from firn.log.credentials import s3_options

_log: Final = logging.getLogger(__name__)

_PAUSES: Final = (0.1, 0.4)  # seconds before the second and the third try
_CLIENT: Final = {"connect_timeout": "2s"}
_RETRY: Final = {"max_retries": 1}
_DELETES_AT_ONCE: Final = 16
_PART_BYTES: Final = 8_000_000  # S3 takes 5 MiB to 5 GiB, and 10,000 of them
# S3's and Google's, Azure's, and Google's JSON.
_NO_BUCKET: Final = re.compile("NoSuchBucket|ContainerNotFound|specified bucket does not exist")
_REFUSED: Final = re.compile("non-2xx status code: 40[13] ")
_TOKENLESS: Final = "Error performing token request"
_memory: dict[str, "Store"] = {}
T = TypeVar("T")


class Store(Protocol):
    """What Firn calls on an obstore store; a fault-injecting wrapper in a test implements the same six methods."""

    def put(self, path: str, file: bytes, *, mode: str) -> Any:
        """Write an object; mode is `create` (if absent) or `overwrite`."""

    def get(self, path: str) -> Any:
        """A result whose `.bytes()` is the content and `.meta` the metadata, as `head` gives it; FileNotFoundError if
        there is none."""

    def get_range(self, path: str, *, start: int, end: int) -> Any:
        """Bytes `start` (included) to `end` (excluded)."""

    def head(self, path: str) -> Any:
        """Metadata: a mapping with `path`, `size`, `last_modified` and, where the storage has one, `e_tag`."""

    def list(self, prefix: str | None = None, *, offset: str | None = None) -> Iterable[Sequence[Mapping[str, Any]]]:
        """Chunks of metadata below `prefix` (whole path segments), with paths greater than `offset`."""

    def delete(self, paths: str) -> Any:
        """Remove one object."""


class Stored(NamedTuple):
    """An object in a listing. `modified`: when the storage took it, by its own clock (S3 tells whole seconds)."""

    path: str
    size: int
    modified: datetime


def open_store(url: str, *, seconds: int = 8, keys: Mapping[str, Any] | None = None) -> Store:
    """The store at `url`: `s3://bucket/prefix`, `gs://…`, `abfss://container@account.dfs.core.windows.net/prefix`,
    `az://container/prefix`, `file:///folder` (made if absent) or `memory://name`.

    S3 takes region and endpoint from the AWS_* environment, and credentials by firn/log/credentials.py; Azure and
    Google take theirs by firn/log/cloud_stores.py. A plain-http endpoint is used only on loopback. `memory://` gives
    one store per name and process. `seconds`: how long a request may take; by default three fit into a Lambda's 30 s.
    `keys`: of S3, obstore's options in place of all that the environment says.
    Raises StorageUnavailable if the URL can't be opened, ConfigError for missing region, account or credentials.
    """
    parts = urlsplit(url)
    if parts.scheme == "memory":
        return _memory.setdefault(url, obstore.store.MemoryStore())
    if parts.scheme == "file":
        return obstore.store.LocalStore(_folder(url), mkdir=True)  # type: ignore[no-any-return]
    cloud_stores.expect_no_secret(url)
    options: dict[str, Any] = {"client_options": _CLIENT | {"timeout": f"{seconds}s"}, "retry_config": dict(_RETRY)}
    if parts.scheme == "s3":
        options |= s3_options(os.environ, parts.netloc) if keys is None else keys
        endpoint = options.get("endpoint", "")
    elif parts.scheme in cloud_stores.AZURE:
        environment = cloud_stores.with_cloud_secrets(os.environ)
        options |= cloud_stores.azure_options(url, environment)
        endpoint = cloud_stores.azure_endpoint(environment)
    elif parts.scheme in cloud_stores.GOOGLE:
        options |= cloud_stores.google_options(os.environ)
        endpoint = cloud_stores.google_emulator(os.environ)
    else:
        endpoint = ""
    if endpoint:
        options["client_options"]["allow_http"] = cloud_stores.is_loopback(endpoint)
    try:
        return obstore.store.from_url(url, **options)  # type: ignore[no-any-return]
    except (BaseError, ValueError) as error:
        raise StorageUnavailable(
            f"can't open '{url}' ({_first_line(error)}); write s3://bucket/prefix, gs://…, abfss://… or file:///folder"
        ) from error


def put_if_absent(store: Store, path: str, data: bytes, *, pause: Callable[[float], None] = time.sleep) -> bool:
    """Create `path` with `data`. True: it holds exactly these bytes now. False: somebody else's bytes were there first.

    A put with an unclear answer is repeated with the same bytes, at most 3 times; so is one that is refused for an
    object that is not there. Raises StorageUnavailable when nothing can have been written, UnknownOutcome when it still
    may have been.
    """
    unclear: UnknownOutcome | None = None
    for last in (*_PAUSES, None):
        try:
            store.put(path, data, mode="create")
        except AlreadyExistsError as error:
            if (there := get(store, path)) is not None:
                return there == data
            # S3 says 409 to a put while another one to the same path is under way, and that one may yet fail.
            unclear = UnknownOutcome(f"the storage refuses to create {path} as if it were there, and it is not there")
            if last is None:
                raise unclear from error
            pause(last)
        except (BaseError, OSError) as error:
            failure = _failure("write", path, error)
            if isinstance(failure, UnknownOutcome):
                unclear = failure
            if last is None:
                raise (unclear or failure) from error
            _log.warning("put of %s failed, trying again: %s", path, _first_line(error))
            pause(last)
        else:
            return True
    raise AssertionError("unreachable")


def put(store: Store, path: str, data: bytes) -> None:
    """Write `path`, over whatever was there (pointers only). Raises StorageUnavailable or UnknownOutcome."""
    try:
        store.put(path, data, mode="overwrite")
    except (BaseError, OSError) as error:
        raise _failure("write", path, error) from error


class ObjectWriter:
    """An object that is written in parts, in bounded memory: it is there once it is closed, and never in part.

    Each method raises StorageUnavailable or UnknownOutcome. What is not closed leaves an unfinished upload at most.
    """

    def __init__(self, store: Store, path: str) -> None:
        self._path = path
        self._file = obstore.open_writer(store, path, buffer_size=_PART_BYTES, max_concurrency=2)

    def write(self, part: bytes) -> None:
        """Add to it."""
        try:
            self._file.write(part)
        except (BaseError, OSError) as error:
            raise _failure("write", self._path, error) from error

    def close(self) -> None:
        """Put it where it belongs."""
        try:
            self._file.close()
        except (BaseError, OSError) as error:
            raise _failure("write", self._path, error) from error


def is_local(store: Store) -> bool:
    """Whether it is a folder of this machine."""
    return isinstance(store, obstore.store.LocalStore)


def link(store: Store, path: str, lifetime: timedelta) -> str:
    """A URL at which whoever has it may read `path` for so long; in a local store a `file://` one, for this machine.

    Raises StorageUnavailable if the store gives none.
    """
    if isinstance(store, obstore.store.LocalStore):
        return (Path(store.prefix or "/") / path).as_uri()
    try:
        return str(obstore.sign(store, "GET", path, lifetime))
    except (BaseError, TypeError, ValueError) as error:
        raise StorageUnavailable(f"no link to {path} can be had: {_first_line(error)}") from error


def remove(store: Store, gone: Sequence[str]) -> None:
    """Delete objects; those that are gone already are fine. Raises StorageUnavailable: some may be gone then."""
    if len(gone) < 4:
        for path in gone:
            _remove(store, path)
        return
    with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
        list(pool.map(lambda path: _remove(store, path), gone))


def _remove(store: Store, path: str) -> None:
    _if_there("delete", path, lambda: store.delete(path))


def _if_there(verb: str, path: str, ask: Callable[[], T]) -> T | None:
    """What `ask` gives, None if there is no object at `path`. Raises StorageUnavailable."""
    try:
        return ask()
    except (BaseError, OSError) as error:
        if _absent(error):
            return None
        raise _unavailable(verb, path, error) from error


def get(store: Store, path: str) -> bytes | None:
    """The content of `path`, None if there is none. Raises StorageUnavailable."""
    found = get_version(store, path)
    return None if found is None else found[0]


def get_version(store: Store, path: str) -> tuple[bytes, str] | None:
    """The content of `path` and its version, as `versions` has it; None if there is none. Raises StorageUnavailable."""

    def read() -> tuple[bytes, str]:
        result = store.get(path)
        return bytes(result.bytes()), _version(result.meta)

    return _if_there("read", path, read)


def tail(store: Store, path: str, length: int, size: int | None = None) -> bytes | None:
    """The last `length` bytes of `path` (all of it if it is shorter), None if there is no object. StorageUnavailable.

    `size`: the object's, where a listing has already said it; saves a round trip.
    """

    def read() -> bytes:
        end = int(store.head(path)["size"]) if size is None else size
        return bytes(store.get_range(path, start=max(0, end - length), end=end)) if end else b""

    return _if_there("read", path, read)


class ObjectFile(io.RawIOBase):
    """An object as a file to read from, each read one request. For files of which little is wanted."""

    def __init__(self, store: Store, path: str) -> None:
        """Raises FileNotFoundError if there is no object, StorageUnavailable; the reads raise the second too."""
        super().__init__()
        self._store = store
        self._path = path
        self._at = 0
        found = _look(store, path)
        if found is None:
            raise FileNotFoundError(path)
        self._size = int(found["size"])

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to `offset` bytes from the start, from here, or from the end."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """`size` bytes from here on, fewer at the end; all that is left without a size."""
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        try:
            data = bytes(self._store.get_range(self._path, start=self._at, end=end))
        except (BaseError, OSError) as error:
            raise _unavailable("read", self._path, error) from error
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from here on -> how many bytes there were. For io.BufferedReader."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def exists(store: Store, path: str) -> bool:
    """Is there an object at `path`? Raises StorageUnavailable."""
    return _look(store, path) is not None


def modified(store: Store, path: str) -> datetime | None:
    """When the storage took `path`, by its own clock; None if there is no object. Raises StorageUnavailable."""
    found = _look(store, path)
    return None if found is None else found["last_modified"]


def _look(store: Store, path: str) -> Mapping[str, Any] | None:
    return _if_there("look at", path, lambda: store.head(path))


def objects(store: Store, prefix: str, after: str | None = None) -> list[Stored]:
    """All objects below `prefix` whose path is greater than `after`, sorted by path.

    Sorted by us: a local store lists in any order. Raises StorageUnavailable.
    """
    try:
        return sorted(
            Stored(str(meta["path"]), int(meta["size"]), meta["last_modified"])
            for meta in _listed(store, prefix, after)
        )
    except (BaseError, OSError) as error:
        raise _unavailable("list", prefix, error) from error


def listing(store: Store, prefix: str, after: str | None = None) -> list[tuple[str, int]]:
    """(path, size in bytes) of `objects`."""
    return [(path, size) for path, size, _ in objects(store, prefix, after)]


def versions(store: Store, prefix: str, after: str | None = None) -> dict[str, str]:
    """Versions of `objects` by path, sorted: an object that was put again has another. Raises StorageUnavailable."""
    try:
        return dict(sorted((str(meta["path"]), _version(meta)) for meta in _listed(store, prefix, after)))
    except (BaseError, OSError) as error:
        raise _unavailable("list", prefix, error) from error


def _version(meta: Mapping[str, Any]) -> str:
    """Its entity tag, which all of S3, GCS, Azure, folders and memory give. Azure's listings leave out its quotes."""
    return str(meta.get("e_tag") or meta["size"]).strip('"')


def paths(store: Store, prefix: str, after: str | None = None) -> list[str]:
    """The paths of `listing`."""
    return [path for path, _ in listing(store, prefix, after)]


def _listed(store: Store, prefix: str, after: str | None) -> Iterator[Mapping[str, Any]]:
    # Azure's startFrom, by which obstore asks, is new: Azurite answers with all, OneLake with nothing, which would be
    # taken for an empty log (https://github.com/apache/arrow-rs-object-store/issues/695).
    all_of_it = isinstance(store, obstore.store.AzureStore)
    for chunk in store.list(prefix, offset=None if all_of_it else after):
        yield from (meta for meta in chunk if after is None or str(meta["path"]) > after)


def _folder(url: str) -> str:
    """`file:///a/b` -> /a/b; `file://./x` and `file://x` are taken as relative to the working directory."""
    parts = urlsplit(url)
    return str(Path(unquote(parts.netloc + parts.path)).absolute())


def _absent(error: Exception) -> bool:
    return isinstance(error, FileNotFoundError) and not _NO_BUCKET.search(str(error))


def _failure(verb: str, path: str, error: Exception) -> FirnError:
    """Did the write perhaps happen? Refused connections and refused credentials are the only sure no."""
    sure = "kind: Connect" in str(error) or _TOKENLESS in str(error)
    if sure or _refused(error) or isinstance(error, FileNotFoundError):
        return _unavailable(verb, path, error)
    return UnknownOutcome(
        f"the answer to writing {path} is unclear: {_first_line(error)}; look at the object before acting"
    )


def _unavailable(verb: str, path: str, error: Exception) -> StorageUnavailable:
    if ARCHIVED.search(str(error)):
        return ArchivedObject(f"object storage can't {verb} {path}: {RESTORE}")
    advice = "try again; if it lasts, check the endpoint"
    if _TOKENLESS in str(error):
        advice = "this machine's own identity gave no token: set credentials (docs/clouds.md), or give it an identity"
    elif _refused(error):
        advice = "check the credentials and the bucket's policy"
    elif isinstance(error, FileNotFoundError) or _NO_BUCKET.search(str(error)):
        advice = "check that the bucket exists"
    return StorageUnavailable(f"object storage can't {verb} {path}: {_first_line(error)}; {advice}")


def _refused(error: Exception) -> bool:
    """Whether the storage knows us not, or lets us not. Of listings obstore tells only the answer's status."""
    return isinstance(error, PermissionDeniedError | UnauthenticatedError) or bool(_REFUSED.search(str(error)))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
