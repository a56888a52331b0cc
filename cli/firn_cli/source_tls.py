"""TLS towards a source's server, by the `sslmode` of its address: as libpq means it."""

import ssl
from collections.abc import Callable
from typing import Any


def connected(
    sslmode: str, connect: Callable[[ssl.SSLContext | None], Any], has_no_tls: Callable[[Exception], bool]
) -> Any:
    """What `connect` gives: with TLS, and without where the mode allows that (`disable`, or `prefer` and a server whose
    refusal `has_no_tls` knows). Raises what `connect` raises."""
    if sslmode == "disable":
        return connect(None)
    context = ssl.create_default_context()
    if sslmode != "verify-full":
        # require and prefer: encrypted, whoever it is.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        return connect(context)
    except Exception as error:
        if sslmode != "prefer" or not has_no_tls(error):
            raise
        return connect(None)
