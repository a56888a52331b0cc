"""Identities that come from a place, in a JVM that was started without them: as a job's driver gives them to the
clouds' own libraries. Offline: nobody is asked for a token."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firn.errors import ConfigError
from firn_local.environment import CLOUD_JARS
from firn_spark import cloud_identity
from firn_spark.session import _engine
from tests.rest_catalog import own_jvm

AZURE = {
    "AZURE_CLIENT_ID": "firn", "AZURE_TENANT_ID": "acme", "AZURE_CLIENT_SECRET": "c4nary",
    "FIRN_AZURE_CLIENT_SECRET": "secretsmanager:firn/dev/storage/azure",
}  # fmt: skip


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    if len(list(CLOUD_JARS.glob("*.jar"))) < 2:
        pytest.skip("the clouds' jars are not here: make setup-servers")
    with own_jvm(CLOUD_JARS.glob("*.jar")) as running:
        yield running


def azure_identity(jvm: Any) -> str | None:
    """The class of what Azure's library makes of its surroundings: the first thing that DefaultAzureCredential asks."""
    made = jvm.com.azure.identity.EnvironmentCredentialBuilder().build()
    field = made.getClass().getDeclaredField("tokenCredential")
    field.setAccessible(True)
    found = field.get(made)
    return None if found is None else str(found.getClass().getSimpleName())


def test_azures_library_knows_the_service_principal_that_came_from_a_place(jvm: Any) -> None:
    assert azure_identity(jvm) is None
    cloud_identity.azure(jvm, AZURE)
    assert azure_identity(jvm) == "ClientSecretCredential"


def test_googles_library_keeps_the_credentials_that_came_from_a_place(jvm: Any, tmp_path: Path) -> None:
    text = json.dumps({
        "type": "external_account", "audience": "//iam.googleapis.com/projects/1/locations/global/x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": "/t"},
    })  # fmt: skip
    home = jvm.java.lang.System.getProperty("user.home")
    (tmp_path / "home").mkdir()
    file = cloud_identity.google(jvm, text, tmp_path / "home")
    assert file.stat().st_mode & 0o77 == 0
    assert jvm.java.lang.System.getProperty("user.home") == home
    for one in (tmp_path / "home").rglob("*.json"):
        one.unlink()
    found = jvm.com.google.auth.oauth2.GoogleCredentials.getApplicationDefault()
    assert str(found.getClass().getSimpleName()) == "IdentityPoolCredentials"
    found = jvm.com.google.cloud.storage.StorageOptions.newBuilder().build().getCredentials()
    assert str(found.getClass().getSimpleName()) == "IdentityPoolCredentials"


def test_executors_get_what_the_warehouse_needs_and_no_more() -> None:
    azure = cloud_identity.executor_settings("abfss://lake@acme.dfs.core.windows.net/w", AZURE)
    assert azure["spark.executorEnv.AZURE_CLIENT_SECRET"] == "c4nary"
    hidden = re.compile(_engine(local=False)["spark.redaction.regex"])
    assert [name for name, value in azure.items() if value == "c4nary" and not hidden.search(name)] == []
    google = {"FIRN_GOOGLE_CREDENTIALS": "ssm:/firn/dev/storage/google"}
    assert cloud_identity.executor_settings("gs://lake/w", google) == {
        "spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS": "firn-google-credentials.json"
    }
    assert cloud_identity.executor_settings("s3://lake/w", {**AZURE, **google}) == {}
    without = {name: value for name, value in AZURE.items() if not name.startswith("FIRN_")}
    assert cloud_identity.executor_settings("abfss://lake@acme.dfs.core.windows.net/w", without) == {}
    with pytest.raises(ConfigError, match="are both set"):
        cloud_identity.executor_settings("gs://lake/w", {**google, "GOOGLE_APPLICATION_CREDENTIALS": "/k"})


def test_nothing_is_done_where_no_place_is_named() -> None:
    cloud_identity.sign_in(SimpleNamespace(), "gs://lake/w", {})  # type: ignore[arg-type]
    cloud_identity.sign_in(SimpleNamespace(), "s3://lake/w", AZURE)  # type: ignore[arg-type]
