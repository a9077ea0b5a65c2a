"""The seam between the gateway and an API surface: the interface of a dialect. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from reconciler.gateway.errors import ApiError
from reconciler.gateway.events import Piece
from reconciler.gateway.figures import Figures
from reconciler.wire.generation import Generate, Route

if TYPE_CHECKING:
    from typing_extensions import TypeIs

from .rate_limits import Headers as Headers
from .rate_limits import openai_headers


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """Sources of time and randomness."""

    now: Callable[[], float]
    """Seconds since the Unix epoch."""
    new_id: Callable[[], str]
    """Letters and digits that no other call returns."""
    new_seed: Callable[[], int]
    """A number of 63 random bits."""


class Stream(Protocol):
    """Writes an answer while it is generated."""

    content_type: bytes

    def keep_alive(self) -> bytes:
        """Return an event of the protocol that changes nothing, for any silence, even before the first part. A
        comment would not do: some clients read every line as an event, and some proxies turn a comment into one."""

    def encode(self, pieces: Sequence[Piece]) -> bytes:
        """Return all of ``pieces``, for one write; nothing if clients see none of them."""

    def error(self, error: ApiError) -> bytes:
        """Return the end of a stream that broke."""


class Reply(Protocol):
    """Writes an answer as one JSON object."""

    def add(self, pieces: Sequence[Piece]) -> None:
        """Keep ``pieces`` for the object."""

    def body(self) -> bytes:
        """Return the object, once every choice is finished."""


def is_stream(answer: Stream | Reply) -> TypeIs[Stream]:
    """Return whether an answer is written while it is generated."""
    return hasattr(answer, "keep_alive")


@dataclasses.dataclass(frozen=True, slots=True)
class Parsed:
    """A request, and the writer of its answer."""

    model: str
    """As the client named it, or the only one there is."""
    choices: Sequence[Generate]
    """One for each answer, without ids: these belong to attempts."""
    answer: Stream | Reply
    session: str = ""
    """The client's name for requests that begin alike."""
    headers: Headers = ()
    """Sent with the answer."""
    answers: int = 1
    """The number of ``choices`` that answer the same prompt, whose tokens count once."""
    reports: bool = False
    """True if ``answer`` gets reports of the progress."""


class Catalog(Protocol):
    """The models that clients may name."""

    def names(self) -> Mapping[str, Route]:
        """Return every name, aliases as well."""

    def find(self, name: str) -> Route | None:
        """Return the route of a name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Generation:
    """A path for which rank 0 reads a prompt: to answer it, or to answer a question about it
    (``Generate.question``)."""

    method: str
    path: str
    parse: Callable[[bytes, Sources, Catalog], Parsed]
    """From a request's body. Raises ``ApiError``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lookup:
    """A path that answers from the catalog."""

    method: str
    path: str
    """``{name:path}`` stands for a name that may have slashes in it."""
    answer: Callable[[Catalog, Mapping[str, str]], bytes]
    """Returns JSON for the values of the braces in ``path``. Raises ``ApiError``."""


@dataclasses.dataclass(frozen=True, slots=True)
class RenderedError:
    """An answer that is an error from its first byte."""

    status: int
    body: bytes
    """JSON."""
    headers: Headers = ()


class RenderError(Protocol):
    """Writes an error as the clients of a dialect parse it."""

    def __call__(self, error: ApiError, request_id: str = "") -> RenderedError:
        """``request_id`` is empty if the request was refused before it had one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dialect:
    """One API surface."""

    name: str
    paths: tuple[Generation | Lookup, ...]
    render_error: RenderError
    """Without ``ApiError.headers`` and ``ApiError.figures``."""
    id_header: str = ""
    """Its clients' name for the header ``x-request-id``; answers have both."""
    base: str = ""
    """The suffix that its clients add to the address for their base URL."""
    left: Callable[[Figures], Headers] = openai_headers
    """Writes the rest of a key's limits."""

    def rendered(self, error: ApiError, request_id: str = "") -> RenderedError:
        """Return an error with all its headers."""
        rendered = self.render_error(error, request_id)
        left = self.left(error.figures) if error.figures is not None else ()
        return dataclasses.replace(rendered, headers=(*rendered.headers, *error.headers, *left))
