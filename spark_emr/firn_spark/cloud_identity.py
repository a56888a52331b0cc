"""Identities at Azure and Google that come from a place, for the clouds' own Java libraries: those read the environment
that their JVM was started in, and the secret was not in it. Both then renew their tokens by themselves, for as long as
a job runs. Nothing is set where no place is named.

Sources: `com.azure.core.util.Configuration` (a system property comes before a variable), Google's
`DefaultCredentialsProvider` (GOOGLE_APPLICATION_CREDENTIALS, then a file in the user's home; what was found is kept),
Spark's `SparkFiles` (an executor has files that were added in its working directory before its first task).
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from firn.errors import ConfigError
from firn.log.cloud_stores import AZURE_CLIENT, AZURE_CLIENT_SECRET, GOOGLE_KEY_FILE, GOOGLE_PLACE, google_credentials

AZURE_PLACE: Final = "FIRN_AZURE_CLIENT_SECRET"
_FILE: Final = "firn-google-credentials.json"
_WELL_KNOWN: Final = Path(".config", "gcloud", "application_default_credentials.json")


def executor_settings(warehouse: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for executors that are started after they were said; the secret among them is blacked out in
    Spark's logs. `environment`: as with_cloud_secrets gives it. Raises ConfigError."""
    if warehouse.startswith("abfss://") and environment.get(AZURE_PLACE):
        return {f"spark.executorEnv.{name}": environment[name] for name in (*AZURE_CLIENT, AZURE_CLIENT_SECRET)}
    if _by_place_at_google(warehouse, environment):
        return {f"spark.executorEnv.{GOOGLE_KEY_FILE}": _FILE}
    return {}


def sign_in(session: SparkSession, warehouse: str, environment: Mapping[str, str]) -> None:
    """Lets the driver's JVM in, and hands Google's credentials file to executors. Before the first table is looked
    at. Raises as google_credentials, ConfigError."""
    if warehouse.startswith("abfss://") and environment.get(AZURE_PLACE):
        azure(session._jvm, environment)
    if _by_place_at_google(warehouse, environment) and (found := google_credentials(environment)):
        home = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, home, ignore_errors=True)  # executors fetch it from there whenever they start
        file = google(session._jvm, found[1], Path(home))
        if not session.sparkContext.master.startswith("local"):
            session.sparkContext.addFile(str(file))


def _by_place_at_google(warehouse: str, environment: Mapping[str, str]) -> bool:
    if not warehouse.startswith("gs://") or not environment.get(GOOGLE_PLACE):
        return False
    if environment.get(GOOGLE_KEY_FILE):  # Google's library would take this one, and Firn the other
        raise ConfigError(f"{GOOGLE_PLACE} and {GOOGLE_KEY_FILE} are both set: set one of them")
    return True


def azure(jvm: Any, environment: Mapping[str, str]) -> None:
    """The service principal, for this JVM."""
    for name in (*AZURE_CLIENT, AZURE_CLIENT_SECRET):
        jvm.java.lang.System.setProperty(name, environment[name])


def google(jvm: Any, text: str, home: Path) -> Path:
    """The credentials of that text, for this JVM -> the file of them in `home`, which nobody else may read."""
    known = home / _WELL_KNOWN
    known.parent.mkdir(parents=True, mode=0o700)
    file = home / _FILE
    for one in (known, file):
        with os.fdopen(os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(text)
    system = jvm.java.lang.System
    before = system.setProperty("user.home", str(home))
    try:
        jvm.com.google.auth.oauth2.GoogleCredentials.getApplicationDefault()
    finally:
        system.setProperty("user.home", before)
    return file
