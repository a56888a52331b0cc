from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.alerts import webhook
from firn.alerts.alert_delivery import Sender
from firn.auth.secrets import Secrets
from tests.unit.alerts.receiver import KEY, Receiver, receiving


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Who does not answer is waited for less long than in life."""
    monkeypatch.setattr(webhook, "SECONDS", 0.4)
    with receiving() as one:
        yield one


@pytest.fixture
def place(tmp_path: Path, receiver: Receiver) -> Path:
    """A folder with the secrets `url` and `key`."""
    (tmp_path / "url").write_text(receiver.url)
    (tmp_path / "key").write_text(KEY)
    return tmp_path


@pytest.fixture
def sender() -> Sender:
    """As an embedded stack sends."""
    return Sender(Secrets(clock=lambda: 0.0), "arn:aws:sns:us-east-1:123456789012:", "test")
