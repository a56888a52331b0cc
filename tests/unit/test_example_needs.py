"""An example with real sources says all that the machine lacks, and how to install it."""

from pathlib import Path

import pytest

from examples.sources import kafka_to_firn, mariadb_to_firn, needs, postgres_to_firn


@pytest.mark.parametrize(
    ("example", "database"),
    [(postgres_to_firn, "postgresql"), (kafka_to_firn, "postgresql"), (mariadb_to_firn, "mariadb-server")],
)
def test_a_machine_without_anything_is_told_all_of_it_and_the_exit_code_says_skipped(
    example: object, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(needs, "_JVM_FOLDERS", ())
    monkeypatch.setattr(needs, "_POSTGRES_FOLDERS", ())
    monkeypatch.setattr(needs, "_MARIADB_FOLDERS", ())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("signal.signal", lambda *_: None)  # the tests' own handlers stay
    assert example.main([]) == needs.SKIPPED  # type: ignore[attr-defined]
    said = capsys.readouterr().err
    assert "skipped: this example needs" in said
    assert "Java 21 or later" in said
    assert f"apt-get install {database}" in said
    assert list(tmp_path.iterdir()) == []


def test_a_java_that_is_too_old_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(needs, "_JVM_FOLDERS", (str(tmp_path / "jvm"),))
    for release in (17, 25, 21):
        java = tmp_path / "jvm" / f"jdk-{release}" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{release}.0.1\" 2025-01-01' >&2\n")
        java.chmod(0o755)
    assert needs.java(21) == tmp_path / "jvm" / "jdk-21" / "bin" / "java"
    assert needs.java(26) is None
