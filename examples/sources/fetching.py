"""What an example runs and this repository does not hold, by Maven into .cache: once, pinned, and checked."""

import hashlib
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from examples.sources.needs import MAVEN, Missing, maven
from firn.errors import FirnError

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
DEBEZIUM_LOCK = ROOT / "examples" / "postgres-debezium" / "debezium-server.lock"
KAFKA_POM = ROOT / "examples" / "kafka" / "broker-pom.xml"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin"
# Of the distribution only what run.sh puts on the class path; the rest is twice as large.
_WANTED = re.compile(r"debezium-server/(lib/[^/]+\.jar|[^/]+-runner\.jar)")


class FetchFailed(FirnError):
    """Maven brought something else than what is pinned."""


def debezium_server() -> Path:
    """The folder of Debezium Server: its runner's jar, and lib. The first time it fetches 780 MB.

    Raises Missing (no Maven, no network), FetchFailed.
    """
    group, name, version, kind, sha256 = next(
        line.split() for line in DEBEZIUM_LOCK.read_text().splitlines() if line and not line.startswith("#")
    )
    folder = CACHE / f"debezium-server-{version}"
    if folder.exists():
        return folder
    command = _maven("Debezium Server (780 MB)")
    arriving = _emptied(CACHE / "arriving-debezium")
    archive = arriving / f"{name}-{version}.{kind}"
    # 2.8 gets the file alone, whatever the published description of it refers to, and copies it to `dest`.
    coordinates = f"-Dartifact={group}:{name}:{version}:{kind}"
    _run(command, f"{_PLUGIN}:2.8:get", coordinates, "-Dtransitive=false", f"-Ddest={archive}")
    if _sha256(archive) != sha256:
        raise FetchFailed(f"Maven brought another {archive.name} than {DEBEZIUM_LOCK.name} names; it is not used")
    with tarfile.open(archive) as packed:
        packed.extractall(arriving, [one for one in packed if _WANTED.fullmatch(one.name)], filter="data")
    (arriving / "debezium-server").replace(folder)
    shutil.rmtree(arriving)
    return folder


def kafka_broker() -> Path:
    """The folder with the jars of a Kafka broker. The first time it fetches 45 MB. Raises Missing."""
    pom = KAFKA_POM.read_bytes()
    folder = CACHE / f"kafka-{hashlib.sha256(pom).hexdigest()[:12]}"
    if not folder.exists():
        arriving = _emptied(CACHE / "arriving-kafka")
        command = _maven("the Kafka broker (45 MB)")
        _run(command, "-f", str(KAFKA_POM), f"{_PLUGIN}:3.1.2:copy-dependencies", f"-DoutputDirectory={arriving}")
        arriving.replace(folder)
    return folder


def _maven(what: str) -> Path:
    command = maven()
    if command is None:
        raise Missing([MAVEN.format(what=what)])
    return command


def _run(command: Path, *arguments: str) -> None:
    done = subprocess.run(
        [command, "-B", "-ntp", *arguments], cwd=CACHE, capture_output=True, text=True, check=False
    )  # in .cache, where no pom.xml of anybody's is
    if done.returncode:
        # Without a network, most often: the machine lacks that then.
        raise Missing([f"what Maven could not fetch (exit {done.returncode}):\n{(done.stdout + done.stderr)[-2000:]}"])


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
