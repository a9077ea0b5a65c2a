"""A gateway and its successor: the old gateway hands over its listening socket and the counts of keys.

The new gateway connects. Both send ``Hello``, and the old one sends ``Offer``. When the new one is ready to answer, it
sends ``Take``. The old one then accepts no more connections, and sends all its counts: ``Given`` with the descriptors,
``CountedKey`` for each key and ``OpenRequest`` for each running request, until ``Complete``. The new one confirms with
``Taken``, the old one closes its descriptors and sends ``Yours``, and the new one accepts. If the connection breaks
earlier, nothing changes.

From then on the old gateway counts nothing by itself: it asks before a request of a key begins (``Begin``), and reports
the use of each (``Ended``). Times are in seconds.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

from .codec import Hello, message, vocabulary
from .figures import ModelFigures
from .keys import KeyLimits, KeyUsage
from .prompts import QuarantinedPrompt

VERSION = 1
SPOKEN = (1,)
"""Versions of this conversation that this side understands, newest first."""


@message("offer")
@dataclasses.dataclass(frozen=True)
class Offer:
    """The address on which an old gateway listens."""

    listen: str
    """The address in the routes."""
    address: str
    """The actual address, with another port if that one was taken."""


@message("take")
@dataclasses.dataclass(frozen=True)
class Take:
    """Ask for everything."""


@message("given")
@dataclasses.dataclass(frozen=True)
class Given:
    """Comes with the descriptors of the listening socket and, if there is one, of the lock."""

    process: str
    """The process's name for its counts in a store of limits."""
    now: float
    """Time by the clock of all ``second``."""
    prompts: Tuple[QuarantinedPrompt, ...] = ()
    listen: str = ""
    """The address in the routes on which the descriptor listens. It differs from the ``Offer`` if the routes have
    changed since. Empty from a gateway that does not send it."""


@message("counts")
@dataclasses.dataclass(frozen=True)
class CountedKey:
    """The use of one key. Amounts follow each other as second, amount, second, amount."""

    used: KeyUsage
    """Its use of the day, without requests that still run."""
    day: int
    """The day of ``used_today``."""
    used_today: int
    """Tokens that count for the limit of a day."""
    requests: Tuple[int, ...] = ()
    """Requests of the last minute."""
    tokens: Tuple[int, ...] = ()
    """Tokens of the last minute, including reserved ones."""


@message("open")
@dataclasses.dataclass(frozen=True)
class OpenRequest:
    """A running request, and the tokens reserved for it."""

    number: int
    name: str
    """Name of its key."""
    tokens: int
    second: int
    """Second in which it was counted."""
    prompt: int
    completion: int
    """Its tokens so far."""


@message("complete")
@dataclasses.dataclass(frozen=True)
class Complete:
    """Everything was sent."""


@message("taken")
@dataclasses.dataclass(frozen=True)
class Taken:
    """The new gateway continues from everything that was sent."""


@message("yours")
@dataclasses.dataclass(frozen=True)
class Yours:
    """The old gateway has closed its descriptors."""


# --- afterwards, from the old gateway -------------------------------------------------------------------


@message("begin")
@dataclasses.dataclass(frozen=True)
class Begin:
    """Ask whether a request may begin. Answered with ``Granted`` or ``Denied``."""

    number: int
    name: str
    tokens: int
    limits: KeyLimits


@message("ended")
@dataclasses.dataclass(frozen=True)
class Ended:
    """A request has ended, with the tokens that it used; none if it ``never_began``."""

    number: int
    prompt: int
    completion: int
    never_began: bool = False


@message("seen")
@dataclasses.dataclass(frozen=True)
class Seen:
    """A key was used for something that costs nothing."""

    name: str


@dataclasses.dataclass(frozen=True)
class Progress:
    """The tokens of a request so far."""

    number: int
    prompt: int
    completion: int


@message("running")
@dataclasses.dataclass(frozen=True)
class Running:
    """The counts that hold if the old gateway is killed: the progress of its requests, and all figures since
    ``Yours``."""

    requests: Tuple[Progress, ...] = ()
    models: Tuple[ModelFigures, ...] = ()


@message("quarantined")
@dataclasses.dataclass(frozen=True)
class Quarantined:
    """All prompts that the old gateway refuses now."""

    prompts: Tuple[QuarantinedPrompt, ...]


# --- afterwards, from the new gateway -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Left:
    """One limit of a key."""

    limit: int
    remaining: int
    reset_seconds: float


@message("granted")
@dataclasses.dataclass(frozen=True)
class Granted:
    """The request may begin."""

    number: int
    now: float
    """Since the Unix epoch."""
    requests: Optional[Left] = None
    tokens: Optional[Left] = None


@message("denied")
@dataclasses.dataclass(frozen=True)
class Denied:
    """The request may not begin."""

    number: int
    now: float
    """Since the Unix epoch."""
    limit: str
    limits: KeyLimits
    retry_seconds: Optional[float] = None
    """None where waiting does not help."""
    requests: Optional[Left] = None
    tokens: Optional[Left] = None


@message("end")
@dataclasses.dataclass(frozen=True)
class End:
    """The new gateway is stopping: the old one must stop too."""


OLD_RECEIVES = vocabulary(Hello, Take, Taken, Granted, Denied, End)
NEW_RECEIVES = vocabulary(
    Hello,
    Offer,
    Given,
    CountedKey,
    OpenRequest,
    Complete,
    Yours,
    Begin,
    Ended,
    Seen,
    Running,
    Quarantined,
)
