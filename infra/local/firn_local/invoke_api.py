"""Lambda's Invoke, for functions that invoke each other: as boto3, or a signed request, asks for it.

Source: AWS Lambda API Reference, Invoke (RequestResponse alone).
"""

import json
from collections.abc import Iterable, Mapping
from wsgiref.types import StartResponse, WSGIEnvironment

from firn_local.calls import invoked
from firn_local.functions import FunctionError, FunctionRunner, PayloadTooLarge
from firn_local.serving import json_response, raw_path, read_body


class InvokeApi:
    """Invokes the functions of a host; `functions` are set once there is one."""

    def __init__(self) -> None:
        self.functions: Mapping[str, FunctionRunner] = {}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (WSGI)."""
        name = invoked(environ)
        # A function's name is firn-{environment}-{folder}, the template's own.
        function = self.functions.get((name or "").rpartition("firn-local-")[2].replace("-", "_"))
        if function is None:
            missing = {"Type": "User", "Message": f"Function not found: {(name or raw_path(environ))[:200]}"}
            headers = {"x-amzn-ErrorType": "ResourceNotFoundException"}
            return json_response(404, missing, headers).send(start_response)
        try:
            answer = json_response(200, function.invoke(json.loads(read_body(environ) or b"{}")))
        except ValueError as error:
            answer = json_response(400, {"Message": str(error)}, {"x-amzn-ErrorType": "InvalidRequestContentException"})
        except PayloadTooLarge as error:
            answer = json_response(413, {"Message": str(error)}, {"x-amzn-ErrorType": "RequestTooLargeException"})
        except FunctionError as error:
            answer = json_response(200, error.report, {"X-Amz-Function-Error": error.kind})
        return answer.send(start_response)
