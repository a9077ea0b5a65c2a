"""An old gateway and the new one that takes over from it.

Both send ``Hello``, the new one first. The old one goes on with ``Given``, with which the descriptors come, and ``Used``
for each key. It goes on accepting, so there is nothing to undo if the new one dies. Once the new one accepts too, it
sends ``Drain``. From then on the old one accepts no connection, and says what its requests use: ``Used`` for each key
with news, then ``Report``, every second and at its end. The first ``Report`` confirms that it accepts no connection and
writes no file.
"""

from __future__ import annotations

from typing import Tuple

from .codec import Hello, message, vocabulary
from .figures import ModelFigures
from .keys import KeyUsage
from .prompts import QuarantinedPrompt

SPOKEN = (2,)
"""Versions of this conversation that this side understands, newest first."""
OLD, NEW = "gateway", "successor"
"""The roles in ``Hello``; in every version."""


@message("given")
class Given:
    """Comes with the descriptors of the listening socket and, if there is one, of the lock."""

    listen: str
    """The address in the routes on which the descriptor listens."""
    pid: int
    """The process that ``figures.json`` names; its counts continue."""
    keys: int
    """The number of keys that follow as ``Used``."""


@message("used")
class Used:
    """The use of one key since the message before."""

    usage: KeyUsage
    """Of the day, with the tokens of running requests."""
    ended: int
    """Requests that have ended."""
    prompt: int
    completion: int
    """Their tokens."""
    requests: Tuple[float, ...] = ()
    """Requests of the last minute, as age in seconds, amount, age, amount. Only after ``Given``, and unless a store
    of limits counts them."""
    tokens: Tuple[float, ...] = ()
    """Tokens of the last minute, including reserved ones, in the same form."""


@message("drain")
class Drain:
    """The new gateway accepts: the old one must not any more, and ends with its last answer."""


@message("report")
class Report:
    """The end of a report of a gateway that drains."""

    models: Tuple[ModelFigures, ...] = ()
    """All its figures."""
    prompts: Tuple[QuarantinedPrompt, ...] = ()
    """All prompts that it refuses."""


@message("stop")
class Stop:
    """The new gateway is being stopped: the old one must stop too."""


OLD_RECEIVES = vocabulary(Hello, Drain, Stop)
NEW_RECEIVES = vocabulary(Hello, Used, Given, Report)
