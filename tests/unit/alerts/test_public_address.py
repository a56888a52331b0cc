"""A deployed stack sends to the public internet, whatever a name resolves to and however an address is written."""

import pytest

from firn.alerts.public_address import is_public


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "52.94.236.248", "2600:1f18::1", "2a00:1450:4001:82a::200e", "64:ff9b::8.8.8.8"]
)
def test_public_addresses_are(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
        "169.254.169.254", "169.254.170.2", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:4136:e378:8000:63bf:5601:5601",
        "192.0.0.8", "192.0.0.9", "192.0.0.171", "192.88.99.1", "::ffff:192.0.0.8", "64:ff9b::192.0.0.8",
        "2002:c000:8::1", "3fff::1", "4000::1", "5f00::1", "64:ff9b:1::8.8.8.8", "2001:2::1", "2001:20::1",
        "localhost", "", "2130706433", "0x7f.1",
    ],
)  # fmt: skip
def test_no_others_are(address: str) -> None:
    assert not is_public(address)
