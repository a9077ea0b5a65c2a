"""Operations that a person may do at once, over the socket of ``admin``."""

from __future__ import annotations

import dataclasses
from typing import Optional

from .answers import Asks, Operated
from .codec import message


@message("operate")
@dataclasses.dataclass(frozen=True)
class Operate(Asks[Operated]):
    """Do at once what a command does, by the same commit: ``verb`` is ``approve``, ``cordon``, ``uncordon``, ``drain``,
    ``suspend``, ``resume``, ``restart``, ``scale`` or ``undo``, of one object. ``undo`` of an Operation ends it; of a manifest it
    reverts the newest commit that changed it, or goes back to ``to_revision``. With ``dry`` nothing is written.
    """

    verb: str
    kind: str
    name: str
    author: str
    """The name of the person, as git writes it; ``email`` beside it."""
    email: str
    reason: str = ""
    seconds: Optional[float] = None
    """Time until the operation ends by itself; None if it does not."""
    force: bool = False
    dry: bool = True
    replicas: str = ""
    """``scale``: the number of replicas, as it was typed."""
    to_revision: str = ""
    """``undo`` of a manifest: the commit of ``main`` to go back to, which may be abbreviated."""
