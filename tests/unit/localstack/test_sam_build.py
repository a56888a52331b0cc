"""`sam build` as the tests and `make deploy-local` run it."""

from pathlib import Path

import pytest

from firn_deploy import sam


def test_what_python_left_beside_the_sources_is_not_there_for_sam_to_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hashes all files of a folder to know whether it has built it before."""
    sources = {tmp_path / "functions/pull/app.py", tmp_path / "layers/core/python/firn/log/store.py"}
    for source in sources:
        compiled = source.parent / "__pycache__" / "left.cpython-313.pyc"
        compiled.parent.mkdir(parents=True)
        compiled.write_bytes(b"compiled")
        source.write_text("")
    seen: list[set[Path]] = []

    def run(*_: object) -> str:
        seen.append({path for path in tmp_path.rglob("*") if path.is_file()})
        return ""

    monkeypatch.setattr(sam, "REPOSITORY", tmp_path)
    monkeypatch.setattr(sam, "_sam", run)
    assert sam.build(tmp_path / "made", tmp_path / "template.yaml") == tmp_path / "made/build/template.yaml"
    assert seen == [sources]
