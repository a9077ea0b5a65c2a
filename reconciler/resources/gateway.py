"""The kind Gateway: the endpoint that clients talk to."""

from __future__ import annotations

import ipaddress
from typing import Literal

from pydantic import field_validator

from .base import ApiVersion, Manifest, Metadata, Seconds, Strict


class GatewayAuth(Strict):
    """Who may call the endpoint."""

    mode: Literal["none"]
    """`none`: whoever can open the port. That is why only loopback addresses are accepted."""


class GatewaySpec(Strict):
    """The endpoint that clients talk to."""

    listen: str
    """`address:port`, on loopback."""
    auth: GatewayAuth
    hold: Seconds = 60.0
    """How long a request may wait for a group that is being formed before it gets 503."""

    @field_validator("listen")
    @classmethod
    def _loopback(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        try:
            address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
        except ValueError:
            raise ValueError('expected "address:port" such as "127.0.0.1:8400"') from None
        if not colon or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise ValueError('expected a port from 1 to 65535, such as "127.0.0.1:8400"')
        if not address.is_loopback:
            raise ValueError(
                f"{host} is not a loopback address: without authentication the endpoint stays on this machine"
            )
        return value


class Gateway(Manifest):
    """The one OpenAI-compatible endpoint of the cluster."""

    api_version: ApiVersion
    kind: Literal["Gateway"]
    """What the object is, and so which fields its spec has."""
    metadata: Metadata
    spec: GatewaySpec
