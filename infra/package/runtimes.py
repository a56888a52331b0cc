"""The systems that run what is packaged: which Python they have, and which glibc and libstdc++.

glibc and gcc of both Amazon Linux: https://docs.aws.amazon.com/linux/al2023/ug/glibc-gcc-and-binutils.html
Symbol versions of each gcc's libraries: https://gcc.gnu.org/onlinedocs/libstdc++/manual/abi.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from packaging.version import Version

from infra.package import PackageError


@dataclass(frozen=True)
class System:
    """A Linux. `symbols`: the newest version that it has of each library's symbols, by their prefix."""

    name: str
    symbols: Mapping[str, Version]

    @property
    def glibc(self) -> Version:
        """Its C library."""
        return self.symbols["GLIBC"]


@dataclass(frozen=True)
class Runtime:
    """What runs a package: a system with one or more Pythons ("3.13")."""

    name: str
    system: System
    pythons: tuple[str, ...]


def _system(name: str, **symbols: str) -> System:
    return System(name, {prefix: Version(version) for prefix, version in symbols.items()})


AMAZON_LINUX_2: Final = _system("Amazon Linux 2", GLIBC="2.26", GLIBCXX="3.4.24", CXXABI="1.3.11", GCC="7.0.0")
AMAZON_LINUX_2023: Final = _system("Amazon Linux 2023", GLIBC="2.34", GLIBCXX="3.4.29", CXXABI="1.3.13", GCC="7.0.0")

_KNOWN: Final = {
    runtime.name: runtime
    for runtime in (
        # https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html
        Runtime("python3.11", AMAZON_LINUX_2, ("3.11",)),
        Runtime("python3.12", AMAZON_LINUX_2023, ("3.12",)),
        Runtime("python3.13", AMAZON_LINUX_2023, ("3.13",)),
        # https://docs.aws.amazon.com/emr/latest/ReleaseGuide/emr-spark800-release.html says the Pythons. EMR is on
        # Amazon Linux 2023 since 7.0; the page of this release names no system.
        Runtime("emr-spark-8.0.0", AMAZON_LINUX_2023, ("3.11", "3.12", "3.13")),
    )
}


def runtime(name: str) -> Runtime:
    """A Lambda runtime or an EMR release, by its name in template.yaml. Raises PackageError."""
    if name not in _KNOWN:
        raise PackageError(f"what {name} has is not known: add it to infra/package/runtimes.py, with its document")
    return _KNOWN[name]
