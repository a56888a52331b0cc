"""Which Java is taken for Spark."""

from pathlib import Path

import pytest

from firn_local import java


def put(home: Path, version: str, code: int = 0) -> Path:
    """A program that says what a Java of that version says, to stderr as they do."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\nexit {code}\n")
    command.chmod(0o755)
    return command


@pytest.fixture(autouse=True)
def nothing_is_at_the_usual_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_USUAL", ("~/.sdkman/candidates/java/*/bin/java",))


def test_java_home_comes_before_the_path_and_that_before_the_usual_places(tmp_path: Path) -> None:
    put(tmp_path / ".sdkman/candidates/java/21.0.2-tem", "21.0.2")
    put(tmp_path / "first", "17.0.15")
    put(tmp_path / "named", "21")
    environ = {"HOME": str(tmp_path), "PATH": "/nonexistent"}
    ways = ({"JAVA_HOME": str(tmp_path / "named")}, {"PATH": str(tmp_path / "first" / "bin")})
    found = [java.find(environ | more) for more in (ways[0] | ways[1], ways[1], {})]
    assert [one and one.version for one in found] == ["21", "17.0.15", "21.0.2"]
    assert found[0] is not None
    assert found[0].home == tmp_path / "named"


@pytest.mark.parametrize(("version", "code"), [("11.0.2", 0), ("1.8.0_412", 0), ("24", 0), ("17.0.15", 1), ("none", 0)])
def test_one_that_spark_does_not_run_on_is_passed_over_for_one_at_a_usual_place(
    tmp_path: Path, version: str, code: int
) -> None:
    put(tmp_path / "old", version, code)
    environ = {"HOME": str(tmp_path), "JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "old" / "bin")}
    assert java.find(environ) is None
    told = java.none_fits(environ)
    assert "a Java 17 or 21 runtime is missing" in told
    assert "JAVA_HOME" in told
    assert (f"only {version} ({tmp_path}/old/bin/java)" in told) is (code == 0 and version != "none")
    put(tmp_path / ".sdkman/candidates/java/17", "17.0.15")
    found = java.find(environ)
    assert found is not None
    assert found.release == 17


def test_a_file_that_can_not_be_run_is_no_java(tmp_path: Path) -> None:
    put(tmp_path / "text", "17").chmod(0o644)
    assert java.find({"JAVA_HOME": str(tmp_path / "text"), "HOME": str(tmp_path), "PATH": ""}) is None
    assert java.find({"JAVA_HOME": str(tmp_path / "none"), "HOME": str(tmp_path), "PATH": ""}) is None
