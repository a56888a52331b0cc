"""LocalStack's web server on the addresses of GATEWAY_LISTEN alone: its own ignores the host and binds 0.0.0.0."""

from typing import Any

from localstack.runtime.server.twisted import TwistedRuntimeServer
from rolo.serving.twisted import TwistedGateway
from twisted.internet import endpoints, reactor


class LoopbackServer(TwistedRuntimeServer):  # type: ignore[misc]
    """Plain HTTP: TLS would need a certificate that LocalStack downloads."""

    def register(self, gateway: Any, listen: list[Any], ssl_creds: Any = None) -> None:  # noqa: ARG002
        """Listen on each host and port of `listen`."""
        site = TwistedGateway(gateway)
        for address in listen:
            endpoints.TCP4ServerEndpoint(reactor, address.port, interface=address.host).listen(site)
