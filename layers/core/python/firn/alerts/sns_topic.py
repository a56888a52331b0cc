"""A message to an SNS topic. JSON for programs, a sentence for mail and text messages.

https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
One try, and boto3 makes no second: only a FIFO topic knows a message that comes again, by its deduplication id.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from firn.alerts.alert_message import Message
from firn.config.alerts import Topic
from firn.log.alert_log import TryResult, result_now

_SECONDS: Final = 4
_MOST_TEXT: Final = 140  # of a text message
_MOST_SUBJECT: Final = 100  # characters, ASCII


def publish(target: Topic, message: Message, now: datetime, *, local: str) -> TryResult:
    """One try. `local`: what the ARNs of the embedded stack's own topics begin with, which has one of the same name; ""
    on AWS."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, EndpointConnectionError

    limits = Config(connect_timeout=_SECONDS / 2, read_timeout=_SECONDS, retries={"total_max_attempts": 1})
    arn = local + target.arn.rpartition(":")[2] if local else target.arn
    try:
        client: Any = boto3.client("sns", region_name=arn.split(":")[3], config=limits)
        client.publish(**_request(arn, target.is_ordered, message))
    except ClientError as error:
        code, status = error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        outcome: Any = "unknown" if status >= 500 else "failed"
        return result_now(outcome, now, f"SNS refused it: {code}{_advice(code)}", status)
    except (ConnectTimeoutError, EndpointConnectionError) as error:
        return result_now("failed", now, f"SNS can't be reached: {type(error).__name__}")
    except BotoCoreError as error:
        kind = type(error).__name__
        if kind in ("NoCredentialsError", "NoRegionError", "ParamValidationError"):
            return result_now("failed", now, f"SNS can't be asked: {kind}")
        return result_now("unknown", now, f"no answer came from SNS ({kind}): it may have arrived")
    return result_now("sent", now)


def _request(arn: str, is_ordered: bool, message: Message) -> Mapping[str, Any]:
    body = message.body.decode()
    said = {"default": body, "email": message.text, "sms": message.text[:_MOST_TEXT]}
    words = {"firn_alert": message.alert, "firn_what": message.what}
    about = f"test of {message.alert}" if message.what == "test" else f"{message.alert} has {message.what}"
    subject = f"Firn: {about}"
    found: dict[str, Any] = {
        "TopicArn": arn,
        "Message": msgspec.json.encode(said).decode(),
        "MessageStructure": "json",
        "Subject": subject[:_MOST_SUBJECT],
        "MessageAttributes": {name: {"DataType": "String", "StringValue": word} for name, word in words.items()},
    }
    if is_ordered:
        found |= {"MessageGroupId": message.group, "MessageDeduplicationId": message.id}
    return found


def _advice(code: str) -> str:
    if code in ("AuthorizationError", "AccessDenied", "AccessDeniedException"):
        return ": name the topic in the deployment's parameter AlertTopicArns"
    return ": is there such a topic?" if code in ("NotFound", "InvalidParameter") else ""
