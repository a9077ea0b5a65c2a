"""The kind Notifier: a webhook for messages about incidents."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, field_validator

from .base import TYPE, Manifest, Path, Strict, Variable


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, without asking a name service."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class UrlFrom(Strict):
    """The place of a secret URL. Use either `env` or `file`."""

    env: Variable | None = None
    """Variable in the environment of `reconciler up` that holds the URL."""
    file: Path | None = None
    """File that holds the URL and nothing else, best with mode 0600. It is read before each message."""


class Webhook(Strict):
    """The webhook that gets messages in Slack's format. Use either `url` or one field of `urlFrom`."""

    url: Annotated[str, StringConstraints(max_length=2048), Field(json_schema_extra={TYPE: "url"})] | None = (
        None
    )
    """URL on the controller's own machine. Other URLs are secrets and belong in `urlFrom`, because manifests are in
    git."""
    url_from: Annotated[UrlFrom, Field(validate_default=True)] = UrlFrom.by_default()

    @field_validator("url")
    @classmethod
    def _local(cls, value: str | None) -> str | None:
        """No message begins with "expected": such messages end with the value, which may be a secret."""
        parts = urlsplit(value or "http://localhost")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError('not a URL such as "http://127.0.0.1:9000/hook"')
        if not is_loopback(parts.hostname):
            raise ValueError(
                "the host is not this machine: such a URL is a secret, and manifests are in git; "
                "use urlFrom: {env: NAME} or {file: PATH}"
            )
        return value

    @field_validator("url_from")
    @classmethod
    def _one(cls, value: UrlFrom, info: Any) -> UrlFrom:
        given = [info.data.get("url"), value.env, value.file]
        if "url" in info.data and sum(each is not None for each in given) != 1:
            raise ValueError("use exactly one of url, urlFrom.env and urlFrom.file")
        return value


class NotifierSpec(Strict):
    """A webhook, and the messages that it gets."""

    webhook: Webhook
    tell: tuple[Literal["opened", "personNeeded", "closed"], ...] = ("opened", "personNeeded", "closed")
    """Messages to send, each once per incident: that it began, that a person is needed, that it is over. By default
    all three."""


class Notifier(Manifest):
    """A webhook for messages about incidents, in Slack's format."""

    kind: Literal["Notifier"]
    spec: NotifierSpec
