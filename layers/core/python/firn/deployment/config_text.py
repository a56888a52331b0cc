"""firn.yaml as it is published: its own text, and in it the schema files that it names (firn.config.schema_files)."""

from pathlib import Path

from firn.config import schema_files
from firn.errors import ConfigError


def config_text(file: Path) -> str:
    """The whole text of a firn.yaml. Raises ConfigError if the file or one that it names can't be read."""
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text") from error
    return schema_files.whole(text, lambda name: (file.parent / name).read_bytes(), str(file))


class Watched:
    """A firn.yaml and the schema files that it names, and whether any of them was written since."""

    def __init__(self, file: Path) -> None:
        """Raises OSError if the firn.yaml is not there."""
        self._file = file
        self._named: list[Path] = []
        self._seen: list[int] = []
        self.changed()

    def changed(self) -> bool:
        """Whether one of them is another one than at the last call. Raises OSError if the firn.yaml is not there."""
        own = self._file.stat().st_mtime_ns
        if [own] != self._seen[:1]:
            try:
                names = schema_files.named(self._file.read_text("utf-8"))
            except UnicodeDecodeError:
                names = []
            self._named = [self._file.parent / name for name in names if "\0" not in name]
        found = [own, *map(_written, self._named)]
        changed, self._seen = found != self._seen, found
        return changed


def _written(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
