"""What compiled libraries need of the system that loads them: Python, glibc, libstdc++, other libraries.

Read from the files themselves: each shared object's symbol versions and needed libraries (ELF, .gnu.version_r and
.dynamic; https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html), each
extension module's name, and each wheel's tags. A version that a loader does not find is an ImportError on the first
call, and nothing earlier says so.
"""

import io
import os
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from packaging.tags import Tag, compatible_tags, cpython_tags, parse_tag
from packaging.version import Version

from infra.package import PackageError
from infra.package.runtimes import Runtime

# What any Linux has that manylinux wheels may ask for, of what Lambda's and EMR's images have too (PEP 600).
_SYSTEM: Final = re.compile(
    r"(lib(c|m|dl|rt|pthread|util|resolv|gcc_s|stdc\+\+)|ld-linux-x86-64)\.so\.\d+|linux-vdso\.so\.1"
)
_SYMBOL: Final = re.compile(r"([A-Z]+)_(\d+(?:\.\d+)*)")
_TAR: Final = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|txz)$")
_EXTENSION: Final = re.compile(r"\.cpython-3(\d+)-")
_WEAK: Final = 0x2  # VER_FLG_WEAK: it may be missing
_OLDEST_GLIBC: Final = 5  # 2.5, of manylinux1


@dataclass
class Needs:
    """What a package needs. `symbols`: of each prefix (GLIBC) the newest version, and a file that asks for it;
    `tags`: those of each wheel; `pythons`: the minor versions that extension modules are for, and a file of each.
    """

    symbols: dict[str, tuple[Version, str]] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    tags: dict[str, frozenset[Tag]] = field(default_factory=dict)
    pythons: dict[int, str] = field(default_factory=dict)
    _bundled: set[str] = field(default_factory=set)
    _asked: dict[str, str] = field(default_factory=dict)

    @property
    def glibc(self) -> Version | None:
        """The oldest glibc that will do; None if nothing is compiled."""
        found = self.symbols.get("GLIBC")
        return None if found is None else found[0]

    @property
    def python(self) -> str | None:
        """The Python that will do: "3.13", or "3.11+" where only the stable ABI is asked for; None: any."""
        if self.pythons:
            return ", ".join(f"3.{minor}" for minor in sorted(self.pythons))
        least = [
            int(tag.interpreter[3:]) for tags in self.tags.values() for tag in tags if tag.interpreter[:3] == "cp3"
        ]
        return f"3.{max(least)}+" if least else None

    def add(self, other: "Needs") -> None:
        """Take another package's needs in: the two are loaded together."""
        for prefix, (version, file) in other.symbols.items():
            self._symbol(prefix, version, file)
        self.others |= other.others
        self.tags |= other.tags
        self.pythons |= other.pythons
        self._bundled |= other._bundled
        self._asked |= other._asked

    def unmet(self, runtime: Runtime, python: str) -> Iterator[str]:
        """What of it `runtime` lacks, run by `python`, in words."""
        has = f"{runtime.name} ({runtime.system.name})"
        if python not in runtime.pythons:
            yield f"Python {python} is asked for, and {has} has {', '.join(runtime.pythons)}"
        for prefix, (version, file) in sorted(self.symbols.items()):
            newest = runtime.system.symbols.get(prefix)
            if newest is None or version > newest:
                yield f"{file} needs {prefix}_{version}, and {has} has {newest or 'none'}"
        for what, file in sorted(self.others.items()):
            yield f"{file} needs {what}, which {has} lacks"
        for library, file in sorted(self._asked.items()):
            if library not in self._bundled and not _SYSTEM.fullmatch(library):
                yield f"{file} needs {library}, which neither the package nor {has} has"
        for minor, file in sorted(self.pythons.items()):
            if f"3.{minor}" != python:
                yield f"{file} is for Python 3.{minor}, and it is Python {python} that loads it"
        supported = _supported(python, runtime.system.glibc)
        for wheel, tags in sorted(self.tags.items()):
            if not tags & supported:
                yield f"{wheel} is for {', '.join(sorted(map(str, tags)))}, not for Python {python} on {has}"

    def _symbol(self, prefix: str, version: Version, file: str) -> None:
        if prefix not in self.symbols or version > self.symbols[prefix][0]:
            self.symbols[prefix] = version, file

    def _read_all(self, name: str, content: bytes) -> None:
        try:
            self._read(name, content)
            for inside, packed in _packed(name, content):
                self._read_all(inside, packed)
        except (ELFError, tarfile.TarError, zipfile.BadZipFile) as error:
            raise PackageError(f"{name} can't be read: {error}") from error

    def _read(self, name: str, content: bytes) -> None:
        if name.endswith(".dist-info/WHEEL"):
            lines = (line.partition(": ") for line in content.decode().splitlines())
            tags = (parse_tag(value.strip()) for key, _, value in lines if key == "Tag")
            self.tags[name.split("/")[-2].removesuffix(".dist-info")] = frozenset().union(*tags)
        elif content.startswith(b"\x7fELF"):
            self._bundled.add(name.rpartition("/")[2])
            if found := _EXTENSION.search(name):
                self.pythons.setdefault(int(found[1]), name)
            self._read_elf(name, ELFFile(io.BytesIO(content)))

    def _read_elf(self, name: str, elf: ELFFile) -> None:
        if elf["e_machine"] != "EM_X86_64":
            self.others[f"a processor of another kind ({elf['e_machine']})"] = name
        if not elf.num_sections():
            raise PackageError(f"{name} does not say what it needs: its sections were stripped")
        for section in elf.iter_sections():
            if isinstance(section, DynamicSection):
                for tag in section.iter_tags("DT_NEEDED"):
                    self._asked.setdefault(tag.needed, name)
            elif isinstance(section, GNUVerNeedSection):
                for library, versions in section.iter_versions():
                    # Another library of the package has its own versions.
                    if _SYSTEM.fullmatch(library.name):
                        for version in versions:
                            if not version.entry["vna_flags"] & _WEAK:
                                self._read_symbol(version.name, name)

    def _read_symbol(self, symbol: str, name: str) -> None:
        if found := _SYMBOL.fullmatch(symbol):
            self._symbol(found[1], Version(found[2]), name)
        else:
            self.others[symbol] = name


def needs(*folders: Path) -> Needs:
    """What all files below these folders need together, those in their wheels and archives too, however deep.

    Raises PackageError for a library or archive of which nobody can tell.
    """
    found = Needs()
    for folder in folders:
        # As packaging does, which follows links to folders.
        for at, folders_there, names in os.walk(folder, followlinks=True):
            folders_there.sort()
            for path in (Path(at, name) for name in sorted(names)):
                if _may_hold(path.name) and path.is_file():
                    found._read_all(str(path.relative_to(folder)), path.read_bytes())
    return found


def _may_hold(name: str) -> bool:
    return not name.endswith((".py", ".pyc"))


def _packed(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of a wheel or archive; none if it is none. Wheels by their content, since an egg or a zip is loaded
    from as well; no jars, which hold libraries for many systems and choose."""
    if content.startswith(b"PK\x03\x04") and not name.endswith(".jar"):
        folder, _, file = name.rpartition("/")
        called = "-".join(file.split("-")[:2]) if file.endswith(".whl") else file
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            for one in filter(_may_hold, wheel.namelist()):
                yield "/".join(filter(None, (folder, called, one))), wheel.read(one)
    elif _TAR.search(name):
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive:
                opened = archive.extractfile(member) if _may_hold(member.name) else None
                if opened is not None:
                    yield member.name, opened.read()


def _supported(python: str, glibc: Version) -> frozenset[Tag]:
    """The tags of wheels that such a Python installs on x86_64."""
    version = tuple(map(int, python.split(".")))
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(_OLDEST_GLIBC, glibc.minor + 1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    return frozenset((*cpython_tags(version, platforms=platforms), *compatible_tags(version, platforms=platforms)))
