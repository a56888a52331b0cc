"""No secret stands in an address, an argument of a job or Spark's parameters; and what is none is let through."""

import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.config.catalogs import KINDS, read_address
from firn.config.reader import parse
from firn.config.secret_addresses import place_of
from firn.config.storage import SCHEMES, read_catalog_uri, read_place, read_staging, read_warehouse
from firn.config.written_secrets import is_secret_name, secret_in
from firn.errors import ConfigError, StorageUnavailable
from firn.log.store import get, open_store, put_if_absent
from firn.runs.emr import EmrJobs
from firn.settings import Settings
from firn_local.stack import Options
from firn_local.storage_choice import refusal
from tests.soak import times

CANARY = "c4nary/Pw"
ADDRESSES = (
    f"postgresql://u:{CANARY}@db.example.org/lake",
    "postgresql://u:c4nary@db.example.org/lake",
    "postgresql://:c4nary@db.example.org/lake",
    "postgresql://u:4c4nary/1@db/lake",
    "postgresql://u@db/lake?password=c4nary",
    "postgresql+pg8000://u@db/lake?sslpassword=c4nary",
    "https://u:c4nary@catalog.example.org/",
    "https://c4nary@catalog.example.org/",
    "https://a.example.org:8181/x,https://u:c4nary@b.example.org/x",
    "https://c.example.org/#credential=firn:c4nary",
    "https://c.example.org/#warehouse=lake&token=c4nary",
    "https://c.example.org/#tok%65n=c4nary",
    "https://c.example.org/#header.Authorization=Bearer%20c4nary",
    "https://c.example.org/#oauth2-server-uri=https%3A%2F%2Fu%3Ac4nary%40login.example.org",
    "https://c.example.org/#s3.secret-access-key=c4nary",
    "https://c.example.org/?sig=c4nary",
    "nessie+https://u:c4nary@n.example.org/iceberg",
    "thrift://u:c4nary@m:9083",
    "thrift://a:9083,thrift://u:c4nary@b:9083",
    "postgresql://u:4#c4nary@db/lake",
    "https://c.example.org/#header.Cookie=session%3Dc4nary",
    "https://c.example.org/#gcs.encryption-key=c4nary",
)
PLACES = (
    "s3://key:c4nary@bucket/p",
    "abfss://lake:c4nary@acme.dfs.core.windows.net/p",
    "abfss://lake@acme.dfs.core.windows.net/p?sv=2024-11-04&sp=rw&sig=c4nary%3D",
    "az://lake/p?sv=1&sig=c4nary",
    "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=c4nary==;EndpointSuffix=core.windows.net",
    "BlobEndpoint=https://acme.blob.core.windows.net;SharedAccessSignature=c4nary",
    "gs://bucket/p?access_token=c4nary",
)
PARAMETERS = (
    "--conf spark.sql.catalog.firn.token=c4nary",
    "--conf spark.emr-serverless.driverEnv.PYICEBERG_CATALOG__FIRN__CREDENTIAL=firn:c4nary",
    "--conf spark.executorEnv.AZURE_STORAGE_ACCOUNT_KEY=c4nary==",
    "--conf spark.executorEnv.AZURE_STORAGE_SAS_TOKEN=sv=1&sig=c4nary",
    '--conf "spark.executorEnv.AZURE_CLIENT_SECRET=c4nary"',
    "--conf spark.hadoop.fs.s3a.secret.key=c4nary",
    "--conf spark.executorEnv.AWS_SECRET_ACCESS_KEY=c4nary",
    "--conf spark.authenticate.secret=c4nary",
    "--conf=spark.hadoop.fs.s3a.secret.key=c4nary",
    "--conf spark.driver.extraJavaOptions=-Djavax.net.ssl.keyStorePassword=c4nary",
    "--conf 'spark.executor.extraJavaOptions=-Xss4m -Dacme.passphrase=c4nary'",
)
NONE = (
    "",
    *(kind.example for kind in KINDS.values()),
    "postgresql://firn@db:5432/lake#firn.credential=secretsmanager:firn/dev/catalog",
    "https://a:8181/x,https://b:8181/x#warehouse=lake&scope=PRINCIPAL_ROLE:ALL&token-exchange-enabled=false",
    "https://[::1]:8181/api#firn.credential=file%3A%2Fetc%2Ffirn%2Fsecret&oauth2-server-uri=https%3A%2F%2Flogin%2Ftokens",
    "https://c#header.X-Iceberg-Access-Delegation=vended-credentials&rest.sigv4-enabled=true&rest.signing-name=glue",
    "sqlite:////data/a,b#c:d@e.db?timeout=3",
    "thrift://m:9083#hadoop.hive.metastore.kerberos.principal=hive/_HOST@ACME.ORG",
    "thrift://a:9083,thrift://b:9083#hadoop.hive.metastore.kerberos.principal=hive%2F_HOST%40ACME.ORG",
    "https://c.example.org#scope=catalog:read@acme",
    "abfss://lake@acme.dfs.core.windows.net/warehouse",
    "s3://acme-lake/tokens/secret",
    "--conf spark.emr-serverless.driverEnv.FIRN_AZURE_KEY=secretsmanager:firn/dev/azure --py-files s3://b/firn.zip",
    "--conf spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS=/etc/google.json",
    "--conf spark.executorEnv.AZURE_FEDERATED_TOKEN_FILE=/var/run/token",
    "--conf spark.acme.password=EMR.secret@arn:aws:secretsmanager:us-east-1:123456789012:secret:firn/dev/db-a1B2c3",
    "--conf spark.executorEnv.DATABASE_SECRET=arn:aws:secretsmanager:us-east-1:123456789012:secret:db --conf spark.x=1",
    "--conf spark.hadoop.fs.s3.customAWSCredentialsProvider=com.amazonaws.Chain --conf spark.executor.memory=4g",
)


@pytest.mark.parametrize("text", [*ADDRESSES, *PLACES, *PARAMETERS])
def test_a_secret_is_seen_and_never_repeated(text: str) -> None:
    assert "c4nary" not in (secret_in(text) or pytest.fail(f"not seen: {text}"))


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_secret_is_let_through(text: str) -> None:
    assert secret_in(text) is None


PARTS = (
    *("://", "http://", "thrift://", "https://a:", "a", "1", "x.y", "[", "\n", "-D", "--", "--conf=", "_uri", "true"),
    *(":", "@", "/", " ", ",", "#", "?", "=", "&", ";", "'", '"', "%41", "%3D", "%3a", "%40"),
    *("token", "sig", "password", "file:/a", "ssm:/a", "secretsmanager:x", "EMR.secret@x"),
)


@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
@settings(max_examples=times(100, 10_000, 1_000))
def test_what_is_seen_is_what_whole_patterns_see(text: str) -> None:
    """Each pattern as it is read aloud: nothing is kept from one match to the next."""
    assert secret_in(text) == (_seen(text) or (_seen(unquote(text)) if "%" in text else None))


def _seen(text: str) -> str | None:
    if re.search(r"://[^/@:\[\s#?]*:(?!\d*/|\d+[#?][\w.%-]+=|\d+,\s*[a-z+]+://)[^@\s]+@", text):
        return "a password"
    if re.search(r"(?:https?|thrift)://[^/?#@\s,]+@", text):
        return "a user, which may be a token,"
    before = r"(?:^|[?#&;\s\"']|(?<![^\s\"'=])(?:-D|--(?:conf=)?))"
    for name, value in re.findall(before + r"([A-Za-z_][\w.%-]*)=(?=([^&;#\s]*))", text):
        if is_secret_name(unquote(name)) and not _is_reference(unquote(value).strip("\"'")):
            return "a shared access signature" if unquote(name).lower() == "sig" else f"the secret {unquote(name)}"
    return None


def _is_reference(value: str) -> bool:
    if value.lower() in ("", "true", "false") or re.fullmatch(r"EMR\.secret@[\w/+=.@:-]+", value):
        return True
    try:
        place_of(value)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    "unit", ["://a:b", "a='", "token=file:/a'", "x=true'token=true'", "%74oken=ssm:/a'", "http://a:"]
)
def test_a_long_text_takes_time_by_its_length(unit: str) -> None:
    """Of 160 kB some took 7.5 seconds, and four times as long of twice as much."""
    text = unit * (400_000 // len(unit))
    began = time.process_time()
    secret_in(text)
    assert time.process_time() - began < 4


def test_a_value_that_is_longer_than_any_place_is_a_secret() -> None:
    assert secret_in(f"token=file:/{'a' * 4000}") is None
    assert secret_in(f"token=file:/{'a' * 5000}") == "the secret token"


@pytest.mark.parametrize("name", ["token", "s3.session-token", "AccountKey", "adls.sas-token.acme", "gcs.private_key"])
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert is_secret_name(name)
    assert not any(map(is_secret_name, ("rest.signing-name", "oauth2-server-uri", "scope", "firn.answer-seconds")))


@pytest.mark.parametrize("text", ADDRESSES)
def test_no_catalog_is_opened_whose_address_holds_one(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write the place of it behind the address, #firn\.credential=") as caught:
        read_address(text)
    with pytest.raises(ValueError, match=r"firn\.credential") as also:
        read_catalog_uri(text)
    assert "c4nary" not in f"{caught.value}{also.value}"


@pytest.mark.parametrize("text", PLACES)
@pytest.mark.parametrize("read", [read_warehouse, lambda text: read_place(text, SCHEMES),
                                  lambda text: read_staging(text, SCHEMES)])  # fmt: skip
def test_no_storage_is_taken_whose_address_holds_one(text: str, read: Any) -> None:
    with pytest.raises(ValueError, match="give it by the environment") as caught:
        read(text)
    assert "c4nary" not in str(caught.value)
    if "://" in text:
        with pytest.raises(ConfigError, match="give it by the environment") as also:
            open_store(text)
        assert "c4nary" not in str(also.value)


@pytest.mark.parametrize(
    "line",
    [f"catalog: {{type: rest, uri: '{text}'}}" for text in ADDRESSES if text.startswith("http")]
    + [f"warehouse: '{text}'" for text in PLACES]
    + [
        "catalog: {type: rest, uri: 'https://c', properties: {header.Authorization: Bearer c4nary}}",
        "catalog: {type: rest, uri: 'https://c', properties: {oauth2-server-uri: 'https://u:c4nary@login'}}",
        "catalog: {type: rest, uri: 'https://c', properties: {x: 'a=b;token=c4nary'}}",
    ],
)
def test_firn_yaml_takes_none_and_repeats_none(line: str) -> None:
    with pytest.raises(ConfigError, match=r"firn\.yaml:1: (catalog|warehouse)") as caught:
        parse(f"{line}\nstreams: {{shop: {{tables: {{'*': {{to: 'shop.{{table}}'}}}}}}}}\n")
    assert "c4nary" not in str(caught.value)


@pytest.mark.parametrize("name", ["credential", "token", "s3.secret-access-key"])
def test_a_place_behind_another_name_is_not_taken_for_the_secret(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} in the catalog's address is not fetched .*#firn\.credential="):
        read_address(f"https://c.example.org#warehouse=lake&{name}=secretsmanager:firn/dev/catalog/c")


def test_what_firn_yaml_takes_is_an_address_that_jobs_are_given() -> None:
    line = (
        "catalog: {type: hive, uri: 'thrift://a:9083', "
        "properties: {hadoop.hive.metastore.kerberos.principal: hive/_HOST@ACME.ORG}}"
    )
    read = parse(f"{line}\nstreams: {{shop: {{tables: {{'*': {{to: 'shop.{{table}}'}}}}}}}}\n")
    assert read_address(read.catalog.address).properties == read.catalog.properties


class _Emr:
    def start_job_run(self, **request: Any) -> dict[str, str]:
        raise AssertionError(request)


@pytest.mark.parametrize(
    ("field", "text"),
    [("catalog_uri", text) for text in ADDRESSES]
    + [(field, text) for field in ("staging", "warehouse") for text in PLACES]
    + [("spark_submit_parameters", text) for text in PARAMETERS],
)
def test_no_job_is_started_with_one(field: str, text: str) -> None:
    settings: dict[str, Any] = {"staging": "s3://b", "warehouse": "s3://b/w", "job_entry_point": "s3://b/commit.py"}
    jobs = EmrJobs(Settings(**settings | {field: text}), _Emr())
    with pytest.raises(ConfigError, match="name the place of the secret instead") as caught:
        jobs.start("shop", 1, 2, 1)
    assert "c4nary" not in str(caught.value)
    named = "FIRN_SPARK" if field.startswith("spark") else f"--{field.replace('_', '-')} of a job"
    assert str(caught.value).startswith(named)


def test_nor_with_one_that_its_name_alone_tells() -> None:
    jobs = EmrJobs(Settings(staging="s3://b"), _Emr())
    with pytest.raises(ConfigError, match=r"^--password of a job holds the secret password ") as caught:
        jobs.start_script("backfill.py", ["--stream", "shop", "--password", "c4nary"], "b-1", "token", {})
    assert "c4nary" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "text"), [("catalog", ADDRESSES[0]), ("staging", PLACES[2]), ("warehouse", PLACES[4])]
)
def test_an_embedded_stack_begins_with_none(option: str, text: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"dir": tmp_path, "config": None, option: text}
    said = refusal(Options(**given)) or pytest.fail("it would begin")
    assert said.startswith(f"--{option}: ")
    assert "c4nary" not in said


def test_what_is_said_of_a_storage_that_does_not_answer_holds_no_signature(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2024-11-04&sp=rwl&sig=c4nary%2Fsig%3D")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:1/acme")
    store = open_store("abfss://lake@acme.dfs.core.windows.net/p")
    for ask in (lambda: put_if_absent(store, "a", b"x", pause=lambda _: None), lambda: get(store, "a")):
        with pytest.raises(StorageUnavailable) as caught:
            ask()
        assert "c4nary" not in f"{caught.value!r} {caught.value.__cause__!r} {caplog.text} {store!r}"


def test_parameters_of_spark_are_named_as_such_behind_a_flag_too() -> None:
    jobs = EmrJobs(Settings(staging="s3://b", spark_submit_parameters=PARAMETERS[0]), _Emr())
    with pytest.raises(ConfigError, match=r"^FIRN_SPARK_SUBMIT_PARAMETERS of a job holds the secret "):
        jobs.start_script("care.py", ["--do", "compact", "--dry-run"], "c-1", "token", {})


def test_a_table_may_be_called_as_a_secret_is() -> None:
    asked: list[Any] = []

    class Emr:
        def start_job_run(self, **request: Any) -> dict[str, str]:
            asked.append(request)
            return {"jobRunId": "1"}

    jobs = EmrJobs(Settings(staging="s3://b", spark_submit_parameters="--jars s3://b/x.jar"), Emr())
    arguments = ["--do", "compact", "--table", "shop.tokens", "--table", "auth.password"]
    assert jobs.start_script("care.py", arguments, "c-1", "token", {}) == "1"
    assert asked[0]["jobDriver"]["sparkSubmit"]["entryPointArguments"] == arguments
