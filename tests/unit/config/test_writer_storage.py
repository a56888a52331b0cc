"""`storage` and `stored_in` of a writer."""

import pytest

from firn.config.reader import parse
from firn.config.writers import Writer
from firn.errors import ConfigError


def writer(more: str) -> Writer:
    auth = "auth: {by: api_key, secret: 'ssm:/firn/acme'}"
    text = f"streams: {{shop: {{writers: {{acme: {{{auth}, {more}}}}}, tables: {{t: {{to: a.t, mode: append}}}}}}}}"
    return parse(text).streams["shop"].writers["acme"]


def test_a_writer_has_tables_that_are_its_own_and_what_they_may_take() -> None:
    found = writer("storage: 10GB, stored_in: ['acme.*', shop.orders_acme, 'acme.*']")
    assert (found.storage, found.stored_in) == (10_000_000_000, ("acme.*", "shop.orders_acme"))
    assert found.has_quotas
    assert not writer("stored_in: ['acme.*']").has_quotas, "they are named for their cost alone"


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("storage: 10GB", r"acme.storage: is of no table; name those that hold .* stored_in: \['acme.\*'\]"),
        ("storage: 10GB, stored_in: []", "stored_in"),
        ("storage: much, stored_in: ['a.*']", "acme.storage: 'much' is not a size"),
        ("storage: 1B, stored_in: ['a.*']", "is not from 1KB to 1TB"),
        ("stored_in: [orders]", "'orders' is no table; write such as"),
        ("stored_in: ['a.*****b*c*d*e*f']", "more than 4"),
        (f"stored_in: [{', '.join(f'a.t{n}' for n in range(101))}]", "names more than 100; write"),
    ],
)
def test_what_is_no_quota_is_refused_with_what_to_write(more: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        writer(more)
