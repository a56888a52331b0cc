"""Fixtures of the tests about cold files."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from moto.s3.models import s3_backends

from firn.log import published_configs
from firn_local.aws import ACCOUNT, AwsEndpoint
from tests.integration.stack.cold_ground import CONFIG, Ground


@pytest.fixture(scope="module")
def cold_endpoint() -> Iterator[AwsEndpoint]:
    started = AwsEndpoint()
    started.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AWS_PROFILE", raising=False)
        patch.delenv("AWS_SESSION_TOKEN", raising=False)
        for name, value in started.credentials.items():
            patch.setenv(name, value)
        yield started
    started.stop()


@pytest.fixture
def ground(cold_endpoint: AwsEndpoint, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Ground]:
    plain = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")[:40].strip("-")
    name = f"{plain}-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:6]}"
    made = Ground(cold_endpoint, tmp_path, name)
    yield made
    made.catalog.close()
    made.s3.close()


@pytest.fixture
def cold_stack(ground: Ground, tmp_path: Path) -> Path:
    """The folder by which the firn command finds the ground; its table has a day of a hundred days ago."""
    about = {
        "pid": os.getpid(), "url": "http://localhost:1", "staging": ground.staging, "warehouse": ground.warehouse,
        "catalog_uri": f"sqlite:///{tmp_path}/catalog.db", "env": ground.endpoint.credentials,
    }  # fmt: skip
    (tmp_path / "stack.json").write_text(json.dumps(about))
    published_configs.publish(ground.store, CONFIG)
    ground.fill(ground.table(), -100, 0)
    keys = s3_backends[ACCOUNT]["aws"].get_bucket(ground.lake).keys
    for key in [one for one in keys if "/data/" in one]:
        keys[key].last_modified -= timedelta(days=100)
    return tmp_path
