"""What LocalStack finds by its entry points. Imports little: LocalStack imports this at every start."""

from typing import Any

from localstack.runtime import hooks
from localstack.runtime.server.core import RuntimeServerPlugin
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin


class ProcessExecutorPlugin(RuntimeExecutorPlugin):  # type: ignore[misc]
    """LAMBDA_RUNTIME_EXECUTOR=process."""

    name = "process"

    def load(self, *_args: Any, **_kwargs: Any) -> Any:
        """The executor's class."""
        from firn_lambda.executor import ProcessExecutor

        return ProcessExecutor


class LoopbackServerPlugin(RuntimeServerPlugin):  # type: ignore[misc]
    """GATEWAY_SERVER=loopback."""

    name = "loopback"

    def load(self, *_args: Any, **_kwargs: Any) -> Any:
        """The server."""
        from firn_lambda.gateway import LoopbackServer

        return LoopbackServer()


@hooks.on_infra_start()  # type: ignore[untyped-decorator]
def firn_cloudformation() -> None:
    """Mend what template.yaml meets."""
    from firn_lambda.cloudformation import fix

    fix()
