"""What is packaged is for the system that runs it: its Python, its glibc, its libraries. All by real libraries."""

import io
import json
import shutil
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow
import pytest

from firn_local.intrinsics import load
from infra.package import PackageError, job
from infra.package.__main__ import main
from infra.package.locks import ROOT
from infra.package.native import needs
from infra.package.runtimes import runtime
from tests.unit.package.test_package import TEMPLATE, built

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the libraries installed here, as ELF")

HERE = "{}.{}".format(*sys.version_info[:2])
OTHER = "3.12" if HERE != "3.12" else "3.13"
MSGSPEC = next(Path(msgspec.__file__).parent.glob("_core*.so"))
PYARROW = Path(pyarrow.__file__).parent


def template() -> dict[str, dict[str, dict[str, str]]]:
    found: dict[str, dict[str, dict[str, str]]] = load((ROOT / "template.yaml").read_text())
    return found


def pyarrow_alone(folder: Path) -> Path:
    """PyArrow's libraries, and the extension module that its import loads first."""
    (folder / "pyarrow").mkdir(parents=True)
    for name in ("lib*.so.*", "lib.*.so"):
        for file in PYARROW.glob(name):
            (folder / "pyarrow" / file.name).symlink_to(file)
    return folder


def test_pyarrow_loads_where_the_query_function_runs(tmp_path: Path) -> None:
    wanted = needs(pyarrow_alone(tmp_path))
    assert str(wanted.glibc) == "2.28"
    on = runtime(template()["Globals"]["Function"]["Runtime"])
    # The Python is the layer's, which this machine's need not be.
    assert [problem for problem in wanted.unmet(on, on.pythons[0]) if "for Python" not in problem] == []


def test_pyarrow_does_not_load_on_amazon_linux_2(tmp_path: Path) -> None:
    (told,) = [one for one in needs(pyarrow_alone(tmp_path)).unmet(runtime("python3.11"), "3.11") if "GLIBC" in one]
    assert told == "pyarrow/libarrow.so.2600 needs GLIBC_2.28, and python3.11 (Amazon Linux 2) has 2.26"


def test_the_jobs_python_is_one_of_the_images() -> None:
    parameters = template()["Parameters"]
    assert parameters["JobPython"]["Default"] == f"python{job.PYTHON}"
    assert job.PYTHON in runtime(parameters["EmrRelease"]["Default"]).pythons


def test_an_extension_of_another_python_is_told(tmp_path: Path) -> None:
    shutil.copy(MSGSPEC, tmp_path)
    wanted = needs(tmp_path)
    assert wanted.python == HERE
    (told,) = wanted.unmet(runtime(f"python{OTHER}"), OTHER)
    assert told == f"{MSGSPEC.name} is for Python {HERE}, and it is Python {OTHER} that loads it"


def test_a_wheel_that_stays_packed_is_read_too(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "msgspec-0.22.0-any.whl", "w") as wheel:
        wheel.write(MSGSPEC, f"msgspec/{MSGSPEC.name}")
        wheel.writestr("msgspec-0.22.0.dist-info/WHEEL", distribution("msgspec").read_text("WHEEL") or "")
    told = list(needs(tmp_path).unmet(runtime(f"python{OTHER}"), OTHER))
    assert [one.split(" is for ")[0] for one in told] == [f"msgspec-0.22.0/msgspec/{MSGSPEC.name}", "msgspec-0.22.0"]


def zipped(name: str, content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        packed.writestr(name, content)
    return made.getvalue()


def tarred(name: str, content: bytes, mode: Literal["w", "w:gz", "w:xz"]) -> bytes:
    made, info = io.BytesIO(), tarfile.TarInfo(name)
    info.size = len(content)
    with tarfile.open(fileobj=made, mode=mode) as packed:
        packed.addfile(info, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize("name", ["a.zip", "a.egg", "a.tgz", "a.tar.xz", "a.tar", "in a zip", "in a tar", "by a link"])
def test_a_library_is_read_however_it_is_packed(name: str, tmp_path: Path) -> None:
    inner, content = f"m/{MSGSPEC.name}", MSGSPEC.read_bytes()
    folder = tmp_path / "layer"
    folder.mkdir()
    if name == "by a link":
        (tmp_path / "elsewhere").mkdir()
        shutil.copy(MSGSPEC, tmp_path / "elsewhere")
        (folder / "m").symlink_to(tmp_path / "elsewhere")
    elif name == "in a zip":
        (folder / "a.zip").write_bytes(zipped("m-1.0-any.whl", zipped(inner, content)))
    elif name == "in a tar":
        (folder / "a.tar.gz").write_bytes(tarred("m-1.0-any.whl", zipped(inner, content), "w:gz"))
    elif ".t" in name:
        (folder / name).write_bytes(tarred(inner, content, "w:gz" if "gz" in name else "w:xz" if "xz" in name else "w"))
    else:
        (folder / name).write_bytes(zipped(inner, content))
    (told,) = needs(folder).unmet(runtime(f"python{OTHER}"), OTHER)
    assert f"{inner} is for Python {HERE}" in told


def stripped() -> bytes:
    """A library without section headers, which a loader does not need."""
    content = bytearray(MSGSPEC.read_bytes())
    content[40:48], content[60:64] = bytes(8), bytes(4)  # e_shoff; e_shnum, e_shstrndx
    return bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("x.so", stripped(), "does not say what it needs"),
        ("x.so", b"\x7fELF\x02\x01\x01", "can't be read"),
        ("x.tar.gz", b"not packed", "can't be read"),
        ("x.whl", b"PK\x03\x04 and no more", "can't be read"),
    ],
)
def test_a_library_of_which_nobody_can_tell_is_refused(name: str, content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PackageError, match=f"{name} {why}"):
        needs(tmp_path)


def test_a_library_that_was_left_out_is_told(tmp_path: Path) -> None:
    shutil.copy(next(PYARROW.glob("lib.*.so")), tmp_path)
    told = list(needs(tmp_path).unmet(runtime(f"python{OTHER}"), OTHER))
    assert any("needs libarrow.so.2600, which neither the package nor" in one for one in told)


def test_another_processor_is_told(tmp_path: Path) -> None:
    content = bytearray(MSGSPEC.read_bytes())
    content[18:20] = b"\xb7\x00"  # e_machine: AArch64
    (tmp_path / "plain.so").write_bytes(content)
    assert any("EM_AARCH64" in one for one in needs(tmp_path).unmet(runtime(f"python{HERE}"), HERE))


def test_a_python_that_the_image_lacks_is_told(tmp_path: Path) -> None:
    (told,) = needs(tmp_path).unmet(runtime("emr-spark-8.0.0"), "3.10")
    assert "has 3.11, 3.12, 3.13" in told


def test_a_runtime_that_nobody_looked_up_is_refused() -> None:
    with pytest.raises(PackageError, match=r"python3\.99 .* not known"):
        runtime("python3.99")


def test_a_layer_for_another_python_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = built(tmp_path)
    shutil.copy(MSGSPEC, folder / "Layer" / "python" / f"msgspec.cpython-3{'12' if HERE == '3.11' else '11'}-x.so")
    assert main(["--functions-only", "--json", "--built", str(folder)]) == 1
    said = capsys.readouterr()
    assert "IngestHttp: python/msgspec.cpython" in said.err
    assert f"it is Python {HERE} that loads it" in said.err
    layer, function = sorted(json.loads(said.out)["measured"], key=lambda one: str(one["kind"]), reverse=True)
    assert (layer["kind"], function["kind"]) == ("layer", "function")
    assert layer["python"] == HERE in TEMPLATE
