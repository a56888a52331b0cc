"""Which addresses a deployed stack may send to: those of the public internet, whatever a name resolves to.

A URL in a secret could otherwise have the function ask its own machine, its credentials' endpoint (169.254.169.254 and
the loopback of Lambda's runtime) or a neighbour, with Firn's rights.
https://www.iana.org/assignments/iana-ipv4-special-registry, https://www.iana.org/assignments/iana-ipv6-special-registry
"""

import ipaddress
from typing import Final

# Global by some Pythons' word: protocol assignments (RFC 6890; 3.11 knows a part), 6to4's relays, which are gone (RFC
# 7526), and documentation (RFC 9637).
_NOT_IPV4: Final = (ipaddress.IPv4Network("192.0.0.0/24"), ipaddress.IPv4Network("192.88.99.0/24"))
_DOCUMENTATION: Final = ipaddress.IPv6Network("3fff::/20")
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")  # all that is given out so far
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: an IPv4 address behind it
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")  # RFC 4291, 2.5.5.1


def is_public(address: str) -> bool:
    """Whether an address, without or with a zone, is one of the public internet; so must be what it stands for."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv4Address):
        public = found.is_global and not found.is_multicast and not found.is_reserved
        return public and not any(found in network for network in _NOT_IPV4)
    if found.scope_id is not None:  # of one link
        return False
    within = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
    if found in _NAT64 or found in _COMPATIBLE:
        within = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    if within is not None:
        return is_public(str(within))
    return found.is_global and found in _UNICAST and found not in _DOCUMENTATION
