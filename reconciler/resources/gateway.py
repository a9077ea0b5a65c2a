"""The kind Gateway: the HTTP endpoint for clients."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from .base import NAME_PATTERN, NAME_RULE, TYPE, ApiVersion, Manifest, Metadata, Seconds, Strict, Text

HOST_NAME = Text("host name", NAME_RULE, NAME_PATTERN, 253, "ai.example.com")


class GatewayAuth(Strict):
    """How clients are authenticated."""

    mode: Literal["none", "keys"]
    """`none`: everybody who can open the port may use it. The port is therefore limited to this machine. `keys`: every
    request needs the secret of an ApiKey, and the port may be open to other machines."""


class GatewaySpec(Strict):
    """The HTTP endpoint for clients."""

    auth: GatewayAuth
    listen: Annotated[str, Field(json_schema_extra={TYPE: "address:port", "examples": ["127.0.0.1:8400"]})]
    """Address and port on which the endpoint listens. With `auth.mode: none` it must be a loopback address."""
    hold: Seconds = 60.0
    """How long a request waits for a group that is being formed before it gets 503."""
    hosts: tuple[Annotated[str, HOST_NAME.field()], ...] = ()
    """Further host names by which clients address the endpoint, for a reverse proxy that passes them on. Web pages of
    these hosts may use it too. With `auth.mode: none`, requests to any other name are refused, except loopback addresses,
    `localhost` and `host.docker.internal`."""

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str, info: ValidationInfo) -> str:
        host, colon, port = value.rpartition(":")
        try:
            address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
        except ValueError:
            raise ValueError('expected "address:port" such as "127.0.0.1:8400"') from None
        if not colon or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise ValueError('expected a port from 1 to 65535, such as "127.0.0.1:8400"')
        auth = info.data.get("auth")
        if auth is not None and auth.mode == "none" and not address.is_loopback:
            raise ValueError(
                f"{host} is not a loopback address, and without authentication the endpoint must stay on this machine;"
                " with auth: {mode: keys} it may have any address"
            )
        return value


class Gateway(Manifest):
    """The one OpenAI-compatible endpoint of the cluster."""

    api_version: ApiVersion
    kind: Literal["Gateway"]
    """The kind of the object, which decides the fields of its spec."""
    metadata: Metadata
    spec: GatewaySpec
