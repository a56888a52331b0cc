#!/usr/bin/env python3
"""Set Firn up for development: a virtual environment from the lock file, Iceberg's jars in .cache/jars, and an archive
of Spark's classes beside them.

Standard library only, because nothing is installed yet. Says everything that is missing before it downloads anything,
and does nothing when all is in place. Run it by `make setup`.

    setup.py               the environment and the jars
    setup.py --sam         also the SAM command line, and the functions' runtime (Python 3.13), each in its own
    setup.py --checkov     also Checkov, which looks at the templates, in one of its own (it pins boto3 too)
    setup.py --localstack  also LocalStack (on Python 3.13), in one of its own
    setup.py --engines     also other readers of Iceberg: DuckDB with its extension, and Polars and Daft, apart
    setup.py --trino       also Trino, another such reader, in .cache/trino (by Maven; it runs on Java 24 or newer)
    setup.py --servers     also a Hive Metastore and a Nessie, in .cache/servers (by Maven), and Azurite and
                           fake-gcs-server (by npm and Go, where those are), for `make test-servers`
    setup.py --versitygw   also an S3 server for tests, in .cache/storages (by Go; it is left out where there is none)
    setup.py --docs        also what builds the documentation and checks the HTTP API by it, in one of its own
    setup.py --tests       what the tests use: --docs, DuckDB with its extension, Playwright; SAM and LocalStack on 3.13
    setup.py --bench       also what the benchmarks compare with (Polars, delta-rs, dlt, …), in one of its own
    setup.py --kafka       also the Kafka client of examples/kafka, in one of its own
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "infra" / "local"), str(ROOT)]

from firn_local import java, spark_classes, spark_jars  # noqa: E402 (the standard library alone, and no more)
from infra.setup import cloud_servers, go_build  # noqa: E402 (the same)

VENV = ROOT / ".venv"
SAM_VENV = ROOT / ".venv-sam"
LOCALSTACK_VENV = ROOT / ".venv-localstack"
RUNTIME_VENV = ROOT / ".venv-runtime"
CHECKOV_VENV = ROOT / ".venv-checkov"
BENCH_VENV = ROOT / ".venv-bench"
DUCKDB_VENV = ROOT / ".venv-duckdb"
BROWSER_VENV = ROOT / ".venv-browser"
ENGINES_VENV = ROOT / ".venv-engines"
KAFKA_VENV = ROOT / ".venv-kafka"
DOCS_VENV = ROOT / ".venv-docs"
JARS = ROOT / ".cache" / "jars"
JARS_LOCK = ROOT / "infra" / "setup" / "jars.lock"
CLOUD_LOCKS = tuple(ROOT / "infra" / "setup" / name for name in ("azure_jars.lock", "google_jars.lock"))
ARCHIVE = ROOT / ".cache" / "spark.jsa"
TRINO = ROOT / ".cache" / "trino"
SERVERS = ROOT / ".cache" / "servers"
VERSITYGW = ROOT / ".cache" / "storages" / "versitygw"
ARRIVING = ROOT / ".cache" / "arriving"
MAVEN_SECONDS = 1200  # for one file, of up to 900 MB
GO_SECONDS = 3600  # versitygw and all that it is made of: minutes on a machine that does nothing else
MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


def missing() -> list[str]:
    """What this machine lacks, each with the command that installs it (Debian and macOS)."""
    lacks = []
    if sys.version_info < (3, 11):  # noqa: UP036 (an older Python runs this file too, and is told so)
        lacks.append(
            f"Python 3.11 or later (this is {sys.version.split()[0]})\n"
            "    Debian, Ubuntu: apt-get install python3.11 python3.11-venv    macOS: brew install python@3.11\n"
            "    then: make setup PYTHON=python3.11"
        )
    else:
        try:
            import ensurepip  # noqa: F401
        except ImportError:
            lacks.append("Python's venv module\n    Debian, Ubuntu: apt-get install python3-venv")
    lacks += [
        f"{tool}\n    Debian, Ubuntu: apt-get install {tool}    macOS: xcode-select --install"
        for tool in ("git", "make")
        if shutil.which(tool) is None
    ]
    if java.find() is None:
        lacks.append(java.none_fits())
    return lacks


def python_of(release: str, variable: str) -> str | None:
    """A Python of that release ("3.13") that can make environments: `variable` names it, or it is on the PATH, or pyenv
    has it. None if there is none: a pyenv shim may be on the PATH and run nothing."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    named = os.environ.get(variable)
    found = [named] if named else [f"python{release}", *map(str, sorted(pyenv.glob(f"{release}.*/bin/python")))]
    for command in found:
        asked = f"import ensurepip, sys; sys.exit(sys.version_info[:2] != {tuple(map(int, release.split('.')))})"
        try:
            if subprocess.run([command, "-c", asked], capture_output=True, check=False).returncode == 0:
                return command
        except OSError:
            continue
    return None


def missing_pythons() -> list[str]:
    """What building and running the functions needs more than the rest, with the command that installs it."""
    return [
        f"Python 3.13, {why}\n"
        "    Debian, Ubuntu: apt-get install python3.13-venv    macOS: brew install python@3.13\n"
        "    anywhere: uv python install 3.13, or pyenv install 3.13\n"
        f"    or point {variable} at one that is already there"
        for variable, why in (
            ("FIRN_PYTHON_RUNTIME", "on which the functions of template.yaml run"),
            ("FIRN_PYTHON_LOCALSTACK", "on which alone LocalStack 4.14 runs"),
        )
        if python_of("3.13", variable) is None
    ]


def sam() -> bool:
    """SAM, and the Python that it builds the functions for and that they run on. True if there was something to do."""
    did = environment(SAM_VENV, ROOT / "infra/setup/sam.lock", tool=True)
    runtime = python_of("3.13", "FIRN_PYTHON_RUNTIME")
    return environment(RUNTIME_VENV, ROOT / "infra/setup/runtime.lock", python=runtime) or did


def stamp_of(*files: Path, python: str) -> str:
    """One hash over the files that decide what gets installed, and the Python that it is for."""
    digest = hashlib.sha256(python.encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def replace(file: Path, text: str) -> None:
    """Write a new file in place of the old one, which may be a hard link that a copy of this environment has too."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text)
    new.replace(file)


def run(step: str, *command: str, seconds: int | None = None) -> None:
    """Run one step quietly; show its output only if it fails. It fails too where it takes longer than `seconds`."""
    began = time.monotonic()
    print(f"  {step} …", flush=True)
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        sys.exit(f"setup: '{step}' was not done after {seconds} s and was ended. Does this machine reach the network?")
    if done.returncode:
        sys.stderr.write(done.stdout[-4000:] + done.stderr[-4000:])
        sys.exit(f"setup: '{step}' failed (exit {done.returncode}); the lines above say why. `make setup` tries again.")
    print(f"  {step}: {time.monotonic() - began:.0f} s", flush=True)


def environment(
    folder: Path,
    lock: Path,
    *,
    project: bool = False,
    tool: bool = False,
    compiled: bool = False,
    python: str | None = None,
) -> bool:
    """Make `folder` hold exactly what `lock` says, for `python` or this one. True if there was something to do.

    `compiled`: all at once. Of the others little is ever loaded, and Python compiles that when it is. A `tool` makes
    way for the project's own environment, after which the longest work follows (the jars, the archive of classes).
    """
    stamp_file = folder / ".firn-setup"
    stamp = stamp_of(lock, ROOT / "pyproject.toml", python=python or sys.version)
    if stamp_file.exists() and stamp_file.read_text() == stamp:
        return False
    if not (folder / "bin" / "python").exists():
        if python is None:
            venv.create(folder, with_pip=True, clear=folder.exists())
        else:
            run(f"make {folder.name}", python, "-m", "venv", "--clear", str(folder))
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    first, options = ("nice", "-n", "10") if tool else (), () if compiled else ("--no-compile",)
    # Nothing but what the lock names, and each by its hash: it names all, so that there is nothing to find out.
    step = f"install {lock.name} into {folder.name}"
    run(step, *first, *pip, *options, "--require-hashes", "--no-deps", "-r", str(lock))
    if project:
        install_firn(folder)
    replace(stamp_file, stamp)
    return True


def install_firn(folder: Path) -> None:
    """Firn itself, as it lies in this checkout."""
    import tomllib

    pip = (str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check")
    (packages,) = folder.glob("lib/python3*/site-packages")
    if list(packages.glob("firn-*.dist-info")):  # another project's name, and once this one's
        run("remove the distribution firn", *pip, "uninstall", "--yes", "firn")
    run("install firn itself (editable)", *pip, "install", "--no-deps", "--no-build-isolation", "-e", ".")
    # setuptools finds them by an import hook that comes last: a folder named firn, such as a clone of it in the working
    # directory, would be taken for the package.
    roots = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    found = dict.fromkeys(str(ROOT / Path(place).parent) for place in roots.values() if place != ".")
    replace(packages / "firn_checkout.pth", "".join(f"{root}\n" for root in found))


def jars() -> bool:
    """Fetch the jars of infra/setup/jars.lock into .cache/jars."""
    did = fetched(JARS, JARS_LOCK)
    for stale in set(JARS.glob("*.jar")) - {JARS / jar.file for jar in spark_jars.locked(JARS_LOCK)}:
        stale.unlink()
    return did


def fetched(folder: Path, lock: Path) -> bool:
    """Fetch the jars of a lock by the Ivy that PySpark ships; check their hashes."""
    ivy = next((VENV / "lib").glob("python3*/site-packages/pyspark/jars/ivy-*.jar"))

    def fetch(step: str, command: Sequence[str], _tick: object) -> None:
        run(step, *command, seconds=MAVEN_SECONDS)

    try:
        return spark_jars.fetch(folder, lock, java_command(), ivy, fetch)
    except spark_jars.WrongJar as error:
        sys.exit(f"setup: {error}; {spark_jars.by_hand(folder, lock)}")


def java_command() -> str:
    """The java that Spark will run."""
    found = java.find()
    return "java" if found is None else str(found.command)


def classes() -> bool:
    """Have Java archive the classes that Spark loads first (firn_local.spark_classes)."""
    found = java.find()
    pyspark = next((VENV / "lib").glob("python3*/site-packages/pyspark"))
    script = ROOT / "infra/setup/first_classes.py"
    if found is None:
        return False
    wanted = spark_classes.stamp(found, pyspark, JARS_LOCK, script)
    if spark_classes.is_current(ARCHIVE, wanted):
        return False
    ARCHIVE.unlink(missing_ok=True)
    making = ARCHIVE.with_suffix(".making")
    variables = spark_classes.variables(found, pyspark, str(VENV / "bin" / "python"))
    run(
        "archive Spark's classes",
        *("env", *(f"{name}={value}" for name, value in variables.items())),
        *spark_classes.command(pyspark, script, spark_classes.class_path(JARS, JARS_LOCK), making),
    )
    spark_classes.take(making, ARCHIVE, wanted)
    return True


def spark() -> bool:
    """The environment of the project, and what Spark needs beside it. True if there was something to do."""
    did = environment(VENV, ROOT / "requirements.lock", project=True)
    did = jars() or did
    return classes() or did


def by_maven(lock: Path, artifact: str, file: Path, sha256: str) -> Path:
    """Fetch `artifact` (group:name:version:kind[:classifier]), which `lock` names, as `file` and check its hash.
    -> the file."""
    copy = (MAVEN_COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={file.parent}")
    run(f"fetch {file.name}", "mvn", "--batch-mode", *copy, seconds=MAVEN_SECONDS)
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != sha256:
        sys.exit(f"setup: {file.name} is not the file that infra/setup/{lock.name} names; it was not installed.")
    return file


def unpacked(archive: Path) -> Path:
    """Unpack an archive that a lock names, and remove it. -> the folder with what it held."""
    folder = archive.parent / "unpacked"
    # shutil's own leaves out files of a zip with two dots in their names.
    with zipfile.ZipFile(archive) if archive.suffix == ".zip" else tarfile.open(archive) as opened:
        opened.extractall(folder)  # noqa: S202 (the file that the lock names)
    archive.unlink()
    return folder


def server(folder: Path, lock: Path, place: Callable[[list[str]], None]) -> bool:
    """Have `place` fetch what each line of the lock (its words) names into `folder`. False if it is there."""
    stamp_file, stamp = folder / ".firn-setup", stamp_of(lock, python="")
    if stamp_file.exists() and stamp_file.read_text() == stamp:
        return False
    shutil.rmtree(folder, ignore_errors=True)
    for line in lock.read_text().splitlines():
        if not line.startswith("#"):
            place(line.split())
    replace(stamp_file, stamp)
    return True


def servers() -> bool:
    """Fetch what infra/setup/servers.lock names into .cache/servers by Maven: a Hive Metastore and a Nessie."""
    lock = ROOT / "infra/setup/servers.lock"

    def place(words: list[str]) -> None:
        group, name, version, kind, classifier, sha256, folder = words
        ends = "" if classifier == "-" else f"-{classifier}"
        artifact = f"{group}:{name}:{version}:{kind}" + ends.replace("-", ":")
        got = by_maven(lock, artifact, ARRIVING / f"{name}-{version}{ends}.{kind}", sha256)
        if kind == "jar":
            (SERVERS / folder).mkdir(parents=True, exist_ok=True)
            got.replace(SERVERS / folder / got.name)
        else:
            (SERVERS / folder).parent.mkdir(parents=True, exist_ok=True)
            next(unpacked(got).glob("apache-hive-*")).replace(SERVERS / folder)

    did = server(SERVERS, lock, place)
    return cloud_servers.install(SERVERS, run) or did  # afterwards: a changed lock empties the folder


def cloud_jars() -> bool:
    """Fetch what jobs need for warehouses on Azure and Google, as `firn up` does where one is."""
    did = [fetched(JARS / "clouds", lock) for lock in CLOUD_LOCKS]
    return any(did)


def versitygw() -> bool:
    """Build what infra/setup/versitygw names into .cache/storages. True if it was; says so where it can't be."""
    module, stamp_file = ROOT / "infra/setup/versitygw", VERSITYGW.with_name("versitygw.firn-setup")
    stamp = stamp_of(module / "go.mod", module / "go.sum", python=f"{sys.platform} {platform.machine()}")

    def built() -> str:
        with VERSITYGW.open("rb") as opened:
            return f"{stamp} {hashlib.file_digest(opened, 'sha256').hexdigest()}"

    if VERSITYGW.exists() and stamp_file.exists() and stamp_file.read_text() == built():
        return False
    if why := go_build.lacks(module):
        print(f"setup: versitygw is not built, and its tests are skipped: {why}")
        return False
    VERSITYGW.parent.mkdir(parents=True, exist_ok=True)
    making = VERSITYGW.with_name("versitygw.making")
    build = go_build.command(module, "github.com/versity/versitygw/cmd/versitygw", making)
    run("build versitygw", *build, seconds=GO_SECONDS)
    making.replace(VERSITYGW)
    replace(stamp_file, built())
    return True


def trino() -> bool:
    """Fetch what infra/setup/trino.lock names into .cache/trino by Maven."""
    lock = ROOT / "infra/setup/trino.lock"

    def place(words: list[str]) -> None:
        group, name, version, kind, sha256, folder = words
        got = by_maven(lock, f"{group}:{name}:{version}:{kind}", ARRIVING / f"{name}-{version}.{kind}", sha256)
        (TRINO / folder).parent.mkdir(parents=True, exist_ok=True)
        (unpacked(got) / f"{name}-{version}").replace(TRINO / folder)

    return server(TRINO, lock, place)


def main() -> None:
    """Check, then install what is not there yet."""
    wanted = set(sys.argv[1:])
    without = missing_pythons()
    lacks = missing() + (without if wanted & {"--localstack", "--sam"} else [])
    if wanted & {"--trino", "--servers"} and shutil.which("mvn") is None:
        lacks.append("Maven, to fetch servers\n    Debian, Ubuntu: apt-get install maven    macOS: brew install maven")
    if lacks:
        sys.exit("setup: this machine lacks\n" + "\n".join(f"  - {lack}" for lack in lacks))
    steps: list[Callable[[], bool]] = [
        lambda: any([spark(), bool(wanted & {"--servers", "--clouds"}) and cloud_jars()])
    ]
    # What takes longest comes first.
    if "--localstack" in wanted or ("--tests" in wanted and not without):
        server = python_of("3.13", "FIRN_PYTHON_LOCALSTACK")
        lock = ROOT / "infra/setup/localstack.lock"
        # Compiled: it has a minute to start, on a machine that may be busy.
        steps.append(lambda: environment(LOCALSTACK_VENV, lock, compiled=True, python=server))
    if "--sam" in wanted or ("--tests" in wanted and not without):
        steps.append(sam)
    if "--checkov" in wanted:
        steps.append(lambda: environment(CHECKOV_VENV, ROOT / "infra/setup/checkov.lock", tool=True))
    if wanted & {"--docs", "--tests"}:
        steps.append(lambda: environment(DOCS_VENV, ROOT / "infra/setup/docs.lock", tool=True))
    if wanted & {"--engines", "--tests"}:
        steps.append(lambda: environment(DUCKDB_VENV, ROOT / "infra/setup/duckdb.lock", tool=True))
    if "--tests" in wanted:
        steps.append(lambda: environment(BROWSER_VENV, ROOT / "infra/setup/browser.lock", tool=True))
    if "--engines" in wanted:
        steps.append(lambda: environment(ENGINES_VENV, ROOT / "infra/setup/engines.lock", tool=True))
    if "--trino" in wanted:
        steps.append(trino)
    if "--servers" in wanted:
        steps.append(servers)
    if "--versitygw" in wanted:
        steps.append(versitygw)
    if "--bench" in wanted:
        steps.append(lambda: environment(BENCH_VENV, ROOT / "infra/setup/bench.lock"))
    if "--kafka" in wanted:
        steps.append(lambda: environment(KAFKA_VENV, ROOT / "examples/kafka/requirements.lock"))
    # Each environment is one process's work, which waits for the network and the disk half of its time.
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        did = any(list(pool.map(lambda step: step(), steps)))
    if did:
        print("setup: done. `make help` lists what there is.")


if __name__ == "__main__":
    main()
