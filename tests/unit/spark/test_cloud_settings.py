"""What Spark is told of a warehouse on Azure or Google."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from firn.errors import ConfigError, TransientError
from firn_local.environment import CLOUD_LOCKS
from firn_local.spark_jars import locked
from firn_spark import versions
from firn_spark.session import _engine, catalog_settings

AZURE = "abfss://lake@acme.dfs.core.windows.net/warehouse"
HOST = "acme.dfs.core.windows.net"
KEY = "Zm9yIGV2ZXJ5Ym9keQ=="


def told(warehouse: str, **environment: str) -> dict[str, str]:
    prefix = "spark.sql.catalog.firn."
    settings = catalog_settings("sqlite:////c.db", warehouse, environment)
    return {
        name.removeprefix(prefix): value
        for name, value in settings.items()
        if name.startswith((f"{prefix}adls", f"{prefix}gcs", f"{prefix}io-impl"))
    }


def test_with_an_identity_no_secret_is_said_to_spark() -> None:
    identity = {"AZURE_CLIENT_ID": "a", "AZURE_TENANT_ID": "b", "AZURE_CLIENT_SECRET": "hidden"}
    assert told(AZURE, **identity) == {"io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO"}
    assert told("gs://acme-lake/warehouse") == {"io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO"}


def test_a_key_or_a_signature_is_said_and_an_emulators_address() -> None:
    found = told(AZURE, AZURE_STORAGE_ACCOUNT_KEY=KEY, AZURE_STORAGE_ENDPOINT="http://127.0.0.1:10000/acme")
    assert found.pop("io-impl")
    assert found == {
        "adls.auth.shared-key.account.name": "acme",
        "adls.auth.shared-key.account.key": KEY,
        f"adls.connection-string.{HOST}": "http://127.0.0.1:10000/acme",
    }
    assert told(AZURE, AZURE_STORAGE_SAS_TOKEN="?sv=1&sig=x")[f"adls.sas-token.{HOST}"] == "sv=1&sig=x"
    emulated = told("gs://acme-lake/w", STORAGE_EMULATOR_HOST="127.0.0.1:4443")
    assert (emulated["gcs.service.host"], emulated["gcs.no-auth"]) == ("http://127.0.0.1:4443", "true")


def test_what_is_secret_among_them_is_blacked_out_in_spark_s_logs() -> None:
    hidden = re.compile(_engine(local=True)["spark.redaction.regex"])
    found = told(AZURE, AZURE_STORAGE_ACCOUNT_KEY=KEY) | told(AZURE, AZURE_STORAGE_SAS_TOKEN="sig=x")
    secret = [name for name, value in found.items() if value in (KEY, "sig=x")]
    assert len(secret) == 2
    assert all(hidden.search(name) for name in secret)


def test_half_of_an_identity_is_named_before_spark_starts_a_job() -> None:
    with pytest.raises(ConfigError, match="AZURE_CLIENT_SECRET is set and"):
        catalog_settings("sqlite:////c.db", AZURE, {"AZURE_CLIENT_SECRET": "hidden"})
    with pytest.raises(ConfigError, match="GOOGLE_APPLICATION_CREDENTIALS names /nowhere, which can't"):
        catalog_settings("sqlite:////c.db", "gs://acme-lake/w", {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"})


def test_a_job_without_the_clouds_library_says_which_jar_it_lacks() -> None:
    def missing(_name: str) -> None:
        raise Py4JError

    spark: Any = SimpleNamespace(
        _jvm=SimpleNamespace(
            py4j=SimpleNamespace(reflection=SimpleNamespace(ReflectionUtil=SimpleNamespace(classForName=missing)))
        )
    )
    with pytest.raises(TransientError, match=r"iceberg-azure-bundle-1\.10\.0\.jar is not on its class path"):
        versions.check_storage(spark, AZURE)
    with pytest.raises(TransientError, match=r"iceberg-gcp-bundle-1\.11\.0\.jar"):
        versions.check_storage(spark, "gs://acme-lake/w")
    versions.check_storage(spark, "s3://acme-lake/w")


def test_the_jars_that_it_names_are_those_that_are_locked() -> None:
    for scheme, lock in CLOUD_LOCKS.items():
        assert [jar.file for jar in locked(lock)] == [versions._CLOUDS[scheme][1]]
