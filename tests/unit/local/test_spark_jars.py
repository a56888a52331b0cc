"""Jars come whole and as the lock names them, or not at all."""

import hashlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from firn_local import spark_jars
from firn_local.environment import JARS_LOCK

BODIES = {"one-1.jar": b"first", "two-2.jar": b"the second"}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "jars.lock"
    lines = ["# group name version sha256 bytes"]
    for name, body in BODIES.items():
        lines.append(f"g {name[:3]} {name[4]} {hashlib.sha256(body).hexdigest()} {len(body)}")
    file.write_text("\n".join(lines) + "\n")
    return file


class Registry:
    """What Ivy would do: it writes the file that `-retrieve` names."""

    def __init__(self, **bodies: bytes | None) -> None:
        self.bodies = {**BODIES, **{f"{name[:3]}-{name[3]}.jar": body for name, body in bodies.items()}}
        self.asked: list[str] = []

    def __call__(self, _step: str, command: Sequence[str], tick: Callable[[], None]) -> None:
        at = list(command).index("-dependency")
        _group, name, version = command[at + 1 : at + 4]
        pattern = command[list(command).index("-retrieve") + 1]
        file = Path(pattern.replace("[artifact]", name).replace("[revision]", version).replace("[ext]", "jar"))
        self.asked.append(file.name)
        partly = file.parent / "ivy" / "cache" / f"{file.name}.part"
        partly.parent.mkdir(parents=True, exist_ok=True)
        body = self.bodies[file.name]
        if body is None:
            raise ConnectionError("the answer is lost")
        partly.write_bytes(body[:3])
        tick()
        file.write_bytes(body)


def fetch(folder: Path, lock: Path, run: Registry, progress: Callable[[int, int], None] = lambda *_: None) -> bool:
    return spark_jars.fetch(folder, lock, "java", Path("ivy.jar"), run, progress)


def test_what_is_missing_comes_and_progress_is_told_in_bytes(tmp_path: Path, lock: Path) -> None:
    told: list[tuple[int, int]] = []
    assert fetch(tmp_path / "jars", lock, Registry(), lambda *at: told.append(at))
    assert told == [(3, 15), (5, 15), (8, 15), (15, 15)]
    assert {file.name: file.read_bytes() for file in (tmp_path / "jars").glob("*.jar")} == BODIES
    again = Registry()
    assert not fetch(tmp_path / "jars", lock, again)
    assert again.asked == []


@pytest.mark.parametrize("body", [b"First", b"firstly", b"", b"fir"])
def test_another_file_than_the_locks_is_not_taken(tmp_path: Path, lock: Path, body: bytes) -> None:
    with pytest.raises(spark_jars.WrongJar, match=r"one-1\.jar is not the file that jars\.lock names"):
        fetch(tmp_path / "jars", lock, Registry(one1=body))
    assert list((tmp_path / "jars").glob("*.jar")) == []


def test_an_answer_that_is_lost_leaves_what_is_there_and_the_next_try_goes_on(tmp_path: Path, lock: Path) -> None:
    with pytest.raises(ConnectionError):
        fetch(tmp_path / "jars", lock, Registry(two2=None))
    again = Registry()
    assert fetch(tmp_path / "jars", lock, again)
    assert again.asked == ["two-2.jar"]
    assert not (tmp_path / "jars" / "arriving").exists()


def test_a_file_that_was_cut_off_is_fetched_again(tmp_path: Path, lock: Path) -> None:
    fetch(tmp_path / "jars", lock, Registry())
    (tmp_path / "jars" / "one-1.jar").write_bytes(b"fi")
    (tmp_path / "jars" / "arriving").mkdir()  # of one that was killed
    again = Registry()
    fetch(tmp_path / "jars", lock, again)
    assert again.asked == ["one-1.jar"]


def test_of_two_at_once_one_fetches(tmp_path: Path, lock: Path) -> None:
    run = Registry()
    both = [threading.Thread(target=fetch, args=(tmp_path / "jars", lock, run)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(10)
    assert sorted(run.asked) == sorted(BODIES)


def test_who_reaches_no_registry_is_told_what_to_put_where(tmp_path: Path, lock: Path) -> None:
    told = spark_jars.by_hand(tmp_path / "jars", lock)
    assert "g:one:1, g:two:2" in told
    assert str(tmp_path / "jars") in told
    assert "JAVA_TOOL_OPTIONS" in told


def test_a_mirrors_settings_are_handed_to_ivy(tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRN_IVY_SETTINGS", "/etc/ivy.xml")
    lines: list[Sequence[str]] = []
    run = Registry()

    def seen(step: str, command: Sequence[str], tick: Callable[[], None]) -> None:
        lines.append(command)
        run(step, command, tick)

    spark_jars.fetch(tmp_path / "jars", lock, "java", Path("ivy.jar"), seen)
    assert all(line[3:5] == ["-settings", "/etc/ivy.xml"] for line in lines)


def test_the_lock_of_this_checkout_is_read() -> None:
    names = [jar.name for jar in spark_jars.locked(JARS_LOCK)]
    assert names == ["iceberg-spark-runtime-4.0_2.13", "iceberg-aws-bundle", "postgresql", "sqlite-jdbc"]
