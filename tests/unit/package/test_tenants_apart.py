"""Policy simulation on paper: what a job of one tenant's stream may do, by its role and by the policy of its run
together, and what of another tenant's it may not."""

from fnmatch import fnmatchcase

import pytest

from firn.config.reader import parse
from firn.log.usage_layout import jobs_prefix, reader_link, stream_path
from firn.runs.session_policy import LONGEST, policy
from firn_local.environment import TEMPLATE
from tests.integration.stack.granted import Grant, grants
from tests.unit.runs.test_session_policy import permits

KEY = "arn:aws:kms:us-east-1:123456789012:key/ab"
ROLE = grants(TEMPLATE, "JobRole", {"Environment": "dev", "GlueDatabases": "acme,globex,shared", "KmsKeyArn": KEY})
LOG = next(one.resource for one in ROLE if one.resource.endswith("/staged/*")).removesuffix("/staged/*")
LAKE = next(one.resource for one in ROLE if one.action == "s3:AbortMultipartUpload").removesuffix("/*")
GLUE = "arn:aws:glue:us-east-1:123456789012"
AUTH = "auth: {by: api_key, secret: 'ssm:/firn/%s'}"
CONFIG = parse(
    "streams:\n"
    + "".join(
        f"  {name}: {{job: {name}, writers: {{{name}: {{{AUTH % name}, storage: 1GB, stored_in: ['{name}.*']}}}},"
        f" tables: {{'*': {{to: '{name}.{{table}}', mode: append}}, public.o: {{to: {name}.orders, key: [id]}}}}}}\n"
        for name in ("acme", "globex")
    )
)


def run_policy(name: str) -> str:
    text = policy(
        [CONFIG.streams[one] for one in CONFIG.sharing(name)],
        LOG.replace("arn:aws:s3:::", "s3://"),
        LAKE.replace("arn:aws:s3:::", "s3://") + "/warehouse",
        catalog="glue://",
    )
    assert text is not None
    assert len(text) <= LONGEST
    return text


def may(name: str, action: str, arn: str) -> bool:
    """Whether a run of the stream may: what its role and its policy both allow."""
    by_role = any(fnmatchcase(action, one.action) and fnmatchcase(arn, one.resource) for one in ROLE)
    return by_role and permits(run_policy(name), action, arn)


def places(name: str) -> list[tuple[str, str]]:
    """What a job of the stream works with."""
    return [
        *(
            ("s3:GetObject", f"{LOG}/{folder}/{name}/1.json")
            for folder in ("staged", "epochs", "cuts", "dead", "pulls")
        ),
        *(("s3:PutObject", f"{LOG}/{folder}/{name}/1.json") for folder in ("epochs", "cuts", "dead", "quarantine")),
        *(("s3:PutObject", f"{LOG}/{folder}/{name}.json") for folder in ("state", "health")),
        ("s3:PutObject", f"{LOG}/jobs/firn-{name}-1-1-1.closed"),
        *((f"s3:{do}Object", f"{LAKE}/warehouse/{name}/orders/data/x") for do in ("Get", "Put", "Delete")),
        ("s3:PutObject", f"{LAKE}/warehouse/{name}/orders__deletes/data/x"),
        ("glue:UpdateTable", f"{GLUE}:table/{name}/orders"),
        ("glue:CreateTable", f"{GLUE}:database/{name}"),
        ("glue:DeleteTable", f"{GLUE}:table/{name}/anything"),
    ]


@pytest.mark.parametrize(("name", "other"), [("acme", "globex"), ("globex", "acme")])
def test_a_tenants_job_reaches_its_own_and_nothing_of_anothers(name: str, other: str) -> None:
    assert [place for place in places(name) if not may(name, *place)] == []
    assert [place for place in places(other) if may(name, *place)] == []


def test_no_job_reaches_the_accounts_or_results_of_readers() -> None:
    paths = [stream_path("acme", "2026-01"), reader_link("acme", "2026-01", 1), jobs_prefix("2026-01", "acme") + "/x"]
    for path in [*paths, "results/readers/acme/x.csv", "receipts/acme/x", "reads/acme/orders/x", "alerts/x"]:
        for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
            assert not may("acme", action, f"{LOG}/{path}"), (action, path)
    assert not may("acme", "s3:DeleteObject", f"{LOG}/staged/acme/1.parquet")
    assert not may("acme", "s3:PutObject", "arn:aws:s3:::another-bucket/x")


def test_the_one_key_is_the_deployments() -> None:
    found = {one for one in ROLE if one.action.startswith("kms:")}
    assert found == {Grant("UseTheKey", f"kms:{action}", KEY) for action in ("Decrypt", "GenerateDataKey")}
    assert may("acme", "kms:Decrypt", KEY)
    assert not may("acme", "kms:Decrypt", KEY.replace("key/ab", "key/cd"))
    assert not may("acme", "kms:CreateGrant", KEY)


def test_streams_that_share_their_jobs_share_their_rights() -> None:
    shared = parse("streams: {a: {tables: {t: {to: a.t, key: [id]}}}, b: {tables: {t: {to: b.t, key: [id]}}}}")
    text = policy([shared.streams[one] for one in shared.sharing("a")], "s3://log", "s3://lake/w", catalog="glue://")
    assert permits(text, "s3:PutObject", "arn:aws:s3:::lake/w/b/t/data/x"), "give tenants a `job` each"
