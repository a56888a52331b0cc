"""How Firn was installed, what another project's `firn` does to it, and which extra is missing."""

import json
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from firn import extras
from firn_cli import entry_point
from firn_cli.commands import doctor
from firn_cli.installation import Installation, look


class Fake(Distribution):
    """What an environment's metadata say of one distribution."""

    def __init__(self, name: str, version: str, **files: Any) -> None:
        self._files = {f"{key}.json" if key == "direct_url" else key: value for key, value in files.items()}
        self._files["METADATA"] = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        found = self._files.get(filename.removesuffix(".txt"))
        return json.dumps(found) if isinstance(found, Mapping) else found

    def locate_file(self, path: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("origin", "how"),
    [
        ({"url": "file:///work/firn", "dir_info": {"editable": True}}, "the checkout /work/firn (editable, by pip)"),
        ({"url": "file:///tmp/a%20b/firn.whl", "archive_info": {}}, "from /tmp/a b/firn.whl"),
        ({"url": "https://host/firn.git", "vcs_info": {"commit_id": "0123456789abcdef"}}, "at 0123456789ab"),
        (None, "from a package index"),
        ("{broken", "from a package index"),
    ],
)
def test_the_installation_is_told_as_the_metadata_have_it(origin: Any, how: str) -> None:
    own = Fake("firn_cdc", "0.1.0", INSTALLER="pip\n", **({} if origin is None else {"direct_url": origin}))
    found = look(lambda: [Fake("other", "1", top_level="other\n"), own])
    assert (found.version, found.foreign) == ("0.1.0", ())
    assert how in found.how


def test_foreign_distributions_with_a_package_firn_are_named_by_name_and_by_what_they_bring() -> None:
    others = [
        Fake("Firn", "3.0"),
        Fake("ice", "1.2", top_level="ice\nfirn\n"),
        Fake("firnline", "1", top_level="firnline"),
    ]
    assert look(lambda: others).foreign == ("Firn 3.0", "ice 1.2")
    assert look(lambda: others).version is None


def test_doctor_tells_of_a_foreign_firn_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn_cli.installation.look", lambda: Installation("0.1.0", "into /env by pip", ("firn 3.0",)))
    check = doctor.installation()
    assert check.ok is False
    assert "firn 3.0 is installed" in check.found
    assert "pip uninstall firn, then" in check.advice
    assert "firn-cdc[all]" in check.advice
    monkeypatch.setattr("firn_cli.installation.look", lambda: Installation("0.1.0", "into /env by pip"))
    assert doctor.installation() == type(check)("firn", True, "0.1.0, into /env by pip")


def broken(monkeypatch: pytest.MonkeyPatch, error: ImportError, other: str | None) -> None:
    """The command line can't be imported; `other`: the version of a foreign distribution `firn`."""

    def version(_name: str) -> str:
        if other is None:
            raise entry_point.PackageNotFoundError
        return other

    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "firn_cli.main":
                raise error

    monkeypatch.setattr(entry_point, "version", version)
    monkeypatch.delitem(sys.modules, "firn_cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])


def test_a_command_whose_package_another_project_took_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(monkeypatch, ImportError("cannot import name", name="firn.errors"), "3.0")
    assert entry_point.run() == 2
    told = capsys.readouterr().err
    assert "another project's distribution `firn` (3.0)" in told
    assert "pip uninstall firn, then pip install --force-reinstall 'firn-cdc[all]'" in told


@pytest.mark.parametrize(("module", "extra"), [("typer", "cli"), ("thrift", "hive")])
def test_a_command_without_its_extra_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: str, extra: str
) -> None:
    broken(monkeypatch, ModuleNotFoundError(f"No module named '{module}'", name=module), None)
    assert entry_point.run() == 2
    assert (
        f"this needs {module}, which is not installed here: pip install 'firn-cdc[{extra}]'" in capsys.readouterr().err
    )


def test_a_foreign_firn_is_not_blamed_for_an_extra_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(monkeypatch, ModuleNotFoundError("No module named 'typer'", name="typer"), "3.0")
    assert entry_point.run() == 2
    told = capsys.readouterr().err
    assert "firn-cdc[cli]" in told
    assert "another project" not in told


@pytest.mark.parametrize("module", ["firn_cli.output", "duckdb"])
def test_an_import_that_no_installation_explains_is_not_hidden(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Nor that of a name which a library that is there does not have."""
    broken(monkeypatch, ImportError("a mistake of ours", name=module), None)
    with pytest.raises(ImportError, match="a mistake of ours"):
        entry_point.run()


def test_each_extra_is_one_of_the_distributions() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())["project"]
    named = set(extras.EXTRA_OF.values())
    assert project["name"] == extras.DISTRIBUTION
    assert named <= set(project["optional-dependencies"])
    compiled = {"hive"}  # Thrift is built by a C compiler: whoever asks for all need not have one
    assert project["optional-dependencies"]["all"] == [f"firn-cdc[{','.join(sorted(named - compiled))}]"]
