"""The kind Gateway: the HTTP endpoint for clients."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from .base import (
    NAME_PATTERN,
    NAME_RULE,
    ORIGIN,
    STORE_ADDRESS,
    TYPE,
    USER,
    Bytes,
    Manifest,
    Name,
    Path,
    Seconds,
    Strict,
    Text,
)

CONSOLE_LISTEN = "127.0.0.1:8480"
"""The console listens here unless the Gateway says otherwise, and while no Gateway is in force."""
HOST_NAME = Text("host name", NAME_RULE, NAME_PATTERN, 253, "ai.example.com")


class GatewayAuth(Strict):
    """The authentication of clients."""

    mode: Literal["none", "keys"]
    """`none`: everybody who can open the port may use it. The port is therefore limited to this machine. `keys`: every
    request needs the secret of an ApiKey, and the port may be open to other machines."""


class GatewayTls(Strict):
    """The certificate with which the endpoint speaks HTTPS. Both files are on the gateway's machine, and are read again
    when they change."""

    certificate: Path
    """PEM file with the certificate, followed by those that lead to its authority."""
    key: Path
    """PEM file with the certificate's private key, without a password, best with mode 0600."""


class GatewayCors(Strict):
    """Web pages of other sites that may use the endpoint."""

    origins: Annotated[tuple[Annotated[str, ORIGIN.field()], ...], Field(min_length=1, max_length=64)]
    """Origins of the pages, as browsers send them: scheme, host, and the port where it is not the usual one. `*`, which
    takes all pages, needs keys."""


class GatewayAccessLog(Strict):
    """A line of JSON for each request: client, model, tokens, times and outcome. It never has the prompt or the answer,
    unless `content` asks for them."""

    content: bool = False
    """Write each prompt and answer to a second log, which only its owner may read."""
    max_size: Annotated[Bytes, Field(ge=65536)] = 64 * 2**20
    """A file that would become larger is rotated."""
    rotate_after: Annotated[Seconds, Field(ge=60)] = 24 * 3600.0
    """Time after which a file is rotated; a day begins at midnight UTC."""
    keep_files: Annotated[int, Field(ge=1, le=1000)] = 30
    """Number of rotated files to keep."""
    keep_for: Annotated[Seconds, Field(ge=60)] = 30 * 24 * 3600.0
    """Time for which a rotated file is kept after its last line."""


class LimitsStoreTls(Strict):
    """TLS on the connection to the store of limits."""

    authority: Path | None = None
    """PEM file with the authority of the store's certificate, on each gateway's machine. Without it, the system's
    authorities are trusted."""


class LimitsStore(Strict):
    """A Valkey, or a Redis from 7.0 on, in which all gateways together count the use of keys. It holds only counts, and
    may lose them: the gateways write them again."""

    address: Annotated[str, STORE_ADDRESS.field()]
    """Host and port, as each gateway reaches it."""
    prefix: Name = "reconciler"
    """Prefix of all names in the store. Clusters that share a store need different ones."""
    user: Annotated[str, USER.field()] | None = None
    """User to log in as. Without it, the store's default user."""
    password_file: Path | None = None
    """File with only the password, on each gateway's machine, best with mode 0600. It is read at each connection."""
    tls: LimitsStoreTls | None = None
    """Without it, the counts and the password cross the network unencrypted."""


class GatewayLimits(Strict):
    """The counting of keys' limits where there are several gateways."""

    store: LimitsStore
    """Store in which all gateways count together. While it does not answer, each gateway grants its share of every
    limit."""


def _checked_address(value: str, auth: GatewayAuth | None, what: str, example: str) -> str:
    """Return an address with its port. Raises ``ValueError`` if it is malformed, or if it needs keys and there are
    none."""
    host, colon, port = value.rpartition(":")
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
    except ValueError:
        raise ValueError(f'expected "address:port" such as "{example}"') from None
    if not colon or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError(f'expected a port from 1 to 65535, such as "{example}"')
    if auth is not None and auth.mode == "none" and not address.is_loopback:
        raise ValueError(
            f"{host} is not a loopback address, and without authentication {what} must stay on this machine;"
            " with auth: {mode: keys} it may have any address"
        )
    return value


def _are_one(one: str, other: str) -> bool:
    """Return whether only one process can listen at two addresses: their ports are equal, and one of them is every
    address, or both are the same. IPv4 and IPv6 addresses never conflict."""
    hosts, ports = zip(
        *((host, int(port)) for host, _, port in (one.rpartition(":"), other.rpartition(":"))), strict=True
    )
    first, second = (
        ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.strip("[]")) for host in hosts
    )
    meets = first == second or (
        first.version == second.version and (first.is_unspecified or second.is_unspecified)
    )
    return ports[0] == ports[1] and meets


class GatewayConsole(Strict):
    """The console: the cluster in a browser. Its process runs next to the gateway."""

    enabled: bool = True
    """Run the console."""
    listen: Annotated[
        str, Field(json_schema_extra={TYPE: "address:port", "examples": ["127.0.0.1:8480"]})
    ] = CONSOLE_LISTEN
    """Address and port on which the console listens. With `auth.mode: none` it must be a loopback address. With keys,
    users must log in with the secret of an ApiKey."""
    read_only: bool = False
    """Refuse all changes in the console, with any key. Otherwise, without keys, everybody who has an account on the
    machine may make changes."""
    tls_proxy: bool = False
    """Expect a proxy with TLS in front of the console, for browsers that call it by a name of `hosts`. The cookie of
    their login is then sent only over TLS. The headers that a proxy adds to a request are never believed."""


class GatewaySpec(Strict):
    """The HTTP endpoint for clients."""

    auth: GatewayAuth
    listen: Annotated[str, Field(json_schema_extra={TYPE: "address:port", "examples": ["127.0.0.1:8400"]})]
    """Address and port on which the endpoint listens. With `auth.mode: none` it must be a loopback address."""
    hold: Seconds = 60.0
    """Time for which a request waits for a group that is being formed, before it gets 503."""
    keep_alive: Literal["event", "comment"] = "event"
    """Form of the signs of life in a stream that pauses. `event`: an event of the client's API that changes nothing, such as a
    chunk with an empty delta. `comment`: a comment of server-sent events, which some clients and proxies take for
    data."""
    hosts: tuple[Annotated[str, HOST_NAME.field()], ...] = ()
    """Further host names by which clients address the endpoint; a reverse proxy may pass them on. Web pages of these
    hosts may use it too. With `auth.mode: none`, requests to any other name are refused. Loopback addresses,
    `localhost`, the machine's own host name, `NAME.local`, and names of container tools such as `host.docker.internal`
    are always accepted."""
    nodes: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Nodes on other machines that have a gateway too, with the same address, routes and keys."""
    limits: GatewayLimits | None = None
    """Without it the limits of keys are divided among all gateways."""
    tls: GatewayTls | None = None
    """Without it the endpoint speaks plain HTTP."""
    cors: GatewayCors | None = None
    """Without it pages of other sites are refused."""
    access_log: GatewayAccessLog | None = None
    """Without it there is none."""
    console: Annotated[GatewayConsole, Field(validate_default=True)] = GatewayConsole()
    """The pages of the cluster for a browser."""

    @field_validator("cors")
    @classmethod
    def _all_pages_need_keys(cls, value: GatewayCors | None, info: ValidationInfo) -> GatewayCors | None:
        auth = info.data.get("auth")
        if value is not None and "*" in value.origins and auth is not None and auth.mode == "none":
            raise ValueError('"*" lets every web page use the endpoint, which needs auth: {mode: keys}')
        return value

    @field_validator("limits")
    @classmethod
    def _limits_belong_to_keys(
        cls, value: GatewayLimits | None, info: ValidationInfo
    ) -> GatewayLimits | None:
        auth = info.data.get("auth")
        if value is not None and auth is not None and auth.mode == "none":
            raise ValueError("limits are those of keys, which need auth: {mode: keys}")
        return value

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str, info: ValidationInfo) -> str:
        return _checked_address(value, info.data.get("auth"), "the endpoint", "127.0.0.1:8400")

    @field_validator("console")
    @classmethod
    def _console_address(cls, value: GatewayConsole, info: ValidationInfo) -> GatewayConsole:
        _checked_address(value.listen, info.data.get("auth"), "the console", CONSOLE_LISTEN)
        if value.tls_proxy and not info.data.get("hosts"):
            raise ValueError("with tlsProxy, hosts must have the name by which browsers call the proxy")
        endpoint = info.data.get("listen")
        if value.enabled and endpoint is not None and _are_one(endpoint, value.listen):
            raise ValueError(
                f"the endpoint listens at {endpoint}, so that the console cannot listen at {value.listen}: choose"
                " another port"
            )
        return value


class Gateway(Manifest):
    """The one OpenAI-compatible endpoint of the cluster."""

    kind: Literal["Gateway"]
    spec: GatewaySpec
