"""Sends alerts to the channel of EOS_ALERTS: a function of the user's, or a webhook. Nothing is sent without it."""

import importlib
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass

from eos_assets.platform.loopback import bypass_proxy
from eos_assets.platform.settings import Settings

logger = logging.getLogger(__name__)

SEND_SECONDS = 10.0


@dataclass(frozen=True)
class Alert:
    """What a channel receives: a function as its argument, a webhook as a JSON object of these fields."""

    #: "run_failed" or "check_failed"
    kind: str
    pipeline: str
    #: Everything in one sentence or two. Slack and Mattermost show this field.
    text: str
    #: The id of the failed run, as in Dagster and in the ledger; empty for a check.
    run: str = ""
    #: The name of the failed check; empty for a run.
    check: str = ""
    partitions: tuple[int, ...] = ()
    #: Whether Dagster repeats the run by itself.
    will_be_repeated: bool = False


Send = Callable[[Alert], object]


def channel() -> Send | None:
    """How to send an alert; None if no channel is set."""
    setting = Settings.load().alerts
    if setting is None:
        return None
    target = setting.get_secret_value()
    return webhook(target) if "://" in target else function(target)


def function(name: str) -> Send:
    """A function of the user's, imported when the first alert is sent."""
    module, _, attribute = name.partition(":")

    def send(alert: Alert) -> None:
        getattr(importlib.import_module(module), attribute)(alert)

    return send


def webhook(url: str) -> Send:
    def send(alert: Alert) -> None:
        bypass_proxy()
        body = json.dumps(asdict(alert)).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SEND_SECONDS):
            pass

    return send


def deliver(send: Send, alert: Alert) -> bool:
    """Send an alert. A channel that fails is logged and raises nothing. Returns whether the alert was sent."""
    try:
        send(alert)
    except Exception as error:
        logger.warning(
            "The alert %r could not be sent: %s",
            alert.text,
            describe(error),
            extra={"event": "alert", "pipeline": alert.pipeline, "run": alert.run, "check": alert.check},
        )
        return False
    return True


def describe(error: Exception) -> str:
    """Why a channel failed, without its address: that may hold a secret, and so may the text of an unknown error."""
    if isinstance(error, urllib.error.HTTPError):
        return f"the webhook answered with status {error.code}"
    if isinstance(error, urllib.error.URLError):
        return f"the webhook cannot be reached ({type(error.reason).__name__})"
    return f"the channel raised {type(error).__name__}"
