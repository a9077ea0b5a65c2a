"""The state of one node while it is watched."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from reconciler.remote.agent_connection import AgentConnection
from reconciler.state import NodeObservation


@dataclass(slots=True)
class Watch:
    """The last observation of one watched node, and the questions that are due."""

    seen: NodeObservation
    look: asyncio.Event = field(default_factory=asyncio.Event)
    probe: asyncio.Event = field(default_factory=asyncio.Event)
    """Set if facts from probes are outdated."""
    awaited: list[asyncio.Event] = field(default_factory=list)
    """Events to set after the next round of probes, or when the machine is lost."""
    task: asyncio.Task[None] | None = None
    link: AgentConnection | None = None
    refresh: bool = False
    """True if a new connection outdates the facts from probes."""
    renewing: bool = False
    """True while the connection is closed on purpose, which says nothing about the machine."""
    missed: asyncio.TimerHandle | None = None
    """Timer after which a machine counts as lost if its connection was closed here and no new one was made."""
    tried: bool = False
    """True if the observation is newer than the start and the last clock gap."""
    asked: bool = False
    """True if a caller waits for the next report, whatever its contents, to see a change that it made."""
    answering: bool = False
    """True if the report under way is one that a caller waits for."""
