"""A gateway and the one that takes over from it: the listening socket and what keys have used go from the one to the other.

The new gateway connects. Both say ``Hello``, and the old one what there is (``Offer``). When the new one is ready to answer it
asks (``Take``). The old one then accepts nothing, and says all that it has counted: ``Given`` with the descriptors, ``CountedKey``
for each key and ``OpenRequest`` for each request that runs, until ``Complete``. The new one has taken that (``Taken``), the old one
lets go of its descriptors (``Yours``), and the new one accepts. A connection that breaks before leaves everything as it was.

From then on the old gateway counts nothing by itself: it asks before a request of a key begins (``Begin``), and says what each
has used (``Ended``). Times are in seconds.
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
    """What an old gateway listens on."""

    listen: str
    """As the routes have it."""
    address: str
    """Where it is: another port, if that one was taken."""


@message("take")
@dataclasses.dataclass(frozen=True)
class Take:
    """Ask for everything."""


@message("given")
@dataclasses.dataclass(frozen=True)
class Given:
    """Comes with descriptors: that of the listening socket, and that of the lock if it has one."""

    process: str
    """By which a store of limits knows what was counted."""
    now: float
    """By the clock of all ``second``."""
    prompts: Tuple[QuarantinedPrompt, ...] = ()
    listen: str = ""
    """Where the descriptor listens, as the routes have it: another address than that of the ``Offer``, if the routes have
    changed since. Empty from a gateway that does not say it."""


@message("counts")
@dataclasses.dataclass(frozen=True)
class CountedKey:
    """What one key has used. Amounts follow each other as second, amount, second, amount."""

    used: KeyUsage
    """Of the day, without requests that still run."""
    day: int
    """Of ``used_today``."""
    used_today: int
    """Tokens that count for the limit of a day."""
    requests: Tuple[int, ...] = ()
    """Of the last minute."""
    tokens: Tuple[int, ...] = ()
    """Of the last minute, with what is reserved."""


@message("open")
@dataclasses.dataclass(frozen=True)
class OpenRequest:
    """A request that runs, and what was reserved for it."""

    number: int
    name: str
    """Of its key."""
    tokens: int
    second: int
    """In which it was counted."""
    prompt: int
    completion: int
    """Its tokens so far."""


@message("complete")
@dataclasses.dataclass(frozen=True)
class Complete:
    """All was said."""


@message("taken")
@dataclasses.dataclass(frozen=True)
class Taken:
    """The new gateway goes on from all that was said."""


@message("yours")
@dataclasses.dataclass(frozen=True)
class Yours:
    """The old gateway has let go."""


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
    """A request has ended, and has used so much; nothing if it ``never_began``."""

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
    """What counts if the old gateway is killed: how far its requests are, and what all have done since it let go."""

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
    """The new gateway is being stopped: the old one is to stop too."""


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
