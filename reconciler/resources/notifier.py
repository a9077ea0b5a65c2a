"""The kind Notifier: a webhook that is told of incidents."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, field_validator

from .base import ApiVersion, Manifest, Metadata, Strict


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, whatever its name service says."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class UrlFrom(Strict):
    """Where a URL is that is a secret. One of them."""

    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] | None = None
    """Name of a variable in the environment of `reconciler up`."""
    file: Annotated[str, StringConstraints(pattern=r"^[/~]", max_length=1024)] | None = None
    """A file with nothing else in it, absolute or under `~`; read before each message. Mode 0600 is best."""


class Webhook(Strict):
    """Where messages are sent, as Slack takes them. Either `url` or one of `urlFrom`."""

    url: Annotated[str, StringConstraints(max_length=2048)] | None = None
    """Of this machine only: others hold secrets, which are kept out of git."""
    url_from: Annotated[UrlFrom, Field(validate_default=True)] = UrlFrom()

    @field_validator("url")
    @classmethod
    def _local(cls, value: str | None) -> str | None:
        """No message begins with what was expected: then it would go on with the URL, which may be a secret."""
        parts = urlsplit(value or "http://localhost")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError('it is no URL such as "http://127.0.0.1:9000/hook"')
        if not is_loopback(parts.hostname):
            raise ValueError(
                "its host is not this machine: such a URL is a secret, and manifests are in git; "
                "use urlFrom: {env: NAME} or {file: PATH}"
            )
        return value

    @field_validator("url_from")
    @classmethod
    def _one(cls, value: UrlFrom, info: Any) -> UrlFrom:
        given = [info.data.get("url"), value.env, value.file]
        if "url" in info.data and sum(each is not None for each in given) != 1:
            raise ValueError("exactly one of url, urlFrom.env and urlFrom.file is to be given")
        return value


class NotifierSpec(Strict):
    """Whom to tell of incidents."""

    webhook: Webhook
    tell: tuple[Literal["opened", "personNeeded", "closed"], ...] = ("opened", "personNeeded", "closed")
    """What is told of an incident, each once: that it began, that a person is needed, that it is over."""


class Notifier(Manifest):
    """A webhook that is told of incidents, in Slack's form."""

    api_version: ApiVersion
    kind: Literal["Notifier"]
    """What the object is, and so which fields its spec has."""
    metadata: Metadata
    spec: NotifierSpec
