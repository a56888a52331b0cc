"""What is deployed and was made by others, as a CycloneDX document: each layer's libraries by its lock, the job's by
what pip took for the archive, the jars by theirs. https://cyclonedx.org/docs/1.6/json/

Each component has the SHA-256 of the one file that it came as. What others packed into theirs (the libraries inside of
iceberg-aws-bundle) is theirs to list. There is no time and no number in it: the same locks give the same document.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from infra.package.job import CLOUDS, JARS, jars
from infra.package.locks import LAYERS, ROOT, Pin, pins

NAME: Final = "sbom.json"


def document(job: Iterable[Pin], root: Path = ROOT, *, clouds: Sequence[str] = ()) -> dict[str, Any]:
    """The document. `job`: the libraries of the job's archive; `clouds`: whose jars lie beside it."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    known = jars()
    parts = {
        f"firn-{layer}-layer": _libraries(
            pins((root / "layers" / layer / "python" / "requirements.lock").read_text()).values()
        )
        for layer in LAYERS
    }
    parts["firn-job"] = [*_libraries(job), *(_jar(name, *known[name]) for name in sorted(JARS))]
    parts["firn-job"] += [_jar(name, *jars(lock)[name]) for lock, name, _ in (CLOUDS[one] for one in sorted(clouds))]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "firn", "name": "firn", "version": version}},
        "components": [
            {
                "type": "application",
                "bom-ref": part,
                "name": part,
                "version": version,
                "components": [{"bom-ref": f"{part}/{one['purl']}", **one} for one in libraries],
            }
            for part, libraries in parts.items()
        ],
        "dependencies": [
            {"ref": "firn", "dependsOn": list(parts)},
            *(
                {"ref": part, "dependsOn": [f"{part}/{one['purl']}" for one in libraries]}
                for part, libraries in parts.items()
            ),
        ],
    }


def libraries_of(manifest: Mapping[str, Any]) -> list[Pin]:
    """The libraries that a packaged job's manifest names."""
    return [Pin(name, one["version"], frozenset([one["sha256"]])) for name, one in manifest["libraries"].items()]


def _libraries(found: Iterable[Pin]) -> list[dict[str, Any]]:
    return [_library(pin.name, pin.version, f"pkg:pypi/{pin.name}@{pin.version}", min(pin.hashes)) for pin in found]


def _jar(name: str, group: str, version: str, sha256: str) -> dict[str, Any]:
    return {"group": group, **_library(name, version, f"pkg:maven/{group}/{name}@{version}", sha256)}


def _library(name: str, version: str, purl: str, sha256: str) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": sha256}]
    return {"type": "library", "name": name, "version": version, "purl": purl, "hashes": hashes}
