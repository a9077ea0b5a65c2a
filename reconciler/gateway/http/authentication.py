"""Finds out who sends a request, and refuses one without a key while keys are on."""

from __future__ import annotations

import functools
import hashlib
import ipaddress
from collections.abc import Callable, Iterator, Mapping

from starlette.types import Scope

from reconciler.gateway.dialects.dialect import Catalog
from reconciler.gateway.errors import ApiError, from_elsewhere, key_missing, model_forbidden
from reconciler.gateway.keys.caller import Caller, KeyRing
from reconciler.wire.generation import Route

from .paths import Paths

SCOPE_KEY = "caller"
"""The place of a request's ``Caller`` in its scope."""
_KEY_HEADERS = (b"x-api-key", b"api-key")
"""Anthropic's and Azure's, in addition to ``Authorization: Bearer``."""


def caller_of(scope: Scope) -> Caller:
    caller: Caller = scope[SCOPE_KEY]
    return caller


def client_of(scope: Scope) -> str:
    """Return the name of the sender for people: the name of its key, or its address."""
    caller: Caller | None = scope.get(SCOPE_KEY)
    return f"key {caller.key_name}" if caller is not None and caller.key else f"address {_address(scope)}"


class Authentication:
    """Knows who sends a request. ``ring`` returns the keys in force; None while keys are off.

    Without keys, only this machine may ask, whatever the gateway listens on, because its address and its keys change
    one after the other.
    """

    def __init__(self, paths: Paths, ring: Callable[[], KeyRing | None], now: Callable[[], float]) -> None:
        self._paths = paths
        self._ring = ring
        self._now = now

    def caller(self, scope: Scope) -> Caller:
        """Return who sends a request. Raises ``ApiError`` (401, 403)."""
        if self._paths.open(scope["path"]):
            return Caller(_client(scope))
        ring = self._ring()
        if ring is None:
            address = _address(scope)
            if not _is_local(address):
                raise from_elsewhere(address)
            return Caller(_client(scope))
        refusal: ApiError = key_missing()
        for number, secret in enumerate(_secrets(scope)):
            try:
                return ring.identify(secret, self._now())
            except ApiError as error:
                refusal = refusal if number else error
        raise refusal


def _secrets(scope: Scope) -> Iterator[str]:
    """Yield the secrets of a request. Some clients send two; one good secret is enough."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, secret = value.partition(b" ")
            if scheme.lower() == b"bearer" and secret.strip():
                yield secret.strip().decode(errors="replace")
        elif name in _KEY_HEADERS and value:
            yield value.decode(errors="replace")


def _client(scope: Scope) -> str:
    """Return the identity of a client while keys are off: a digest of the secret that it sends anyway, or its address.

    A program that sends several secrets is several clients.
    """
    for secret in _secrets(scope):
        return "key " + hashlib.blake2b(secret.encode(), digest_size=8).hexdigest()
    return f"address {_address(scope)}"


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


@functools.lru_cache(maxsize=1024)
def _is_local(address: str) -> bool:
    """Return whether a client is on this machine. A client without an address is, because it comes through a Unix
    socket."""
    try:
        return not address or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class OwnCatalog:
    def __init__(self, catalog: Catalog, caller: Caller) -> None:
        self._catalog = catalog
        self._caller = caller

    def names(self) -> Mapping[str, Route]:
        """Return every name that the caller may use, aliases as well."""
        names = self._catalog.names()
        return {name: route for name, route in names.items() if self._caller.may_use(route.model)}

    def find(self, name: str) -> Route | None:
        """Return the route of a name. Raises ``ApiError`` (403) if the caller may not use it."""
        route = self._catalog.find(name)
        if route is not None and not self._caller.may_use(route.model):
            raise model_forbidden(name, self._caller.key_name)
        return route


def catalog_for(caller: Caller, catalog: Catalog) -> Catalog:
    return OwnCatalog(catalog, caller) if caller.key is not None and caller.key.models else catalog
