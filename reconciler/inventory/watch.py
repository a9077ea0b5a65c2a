"""What is kept of one node while it is watched."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from reconciler.remote.agent_connection import AgentConnection
from reconciler.state import NodeObservation


@dataclass(slots=True)
class Watch:
    """Holds the state of one watched node: the last observation, and the questions that are due."""

    seen: NodeObservation
    look: asyncio.Event = field(default_factory=asyncio.Event)
    probe: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when facts from probes are outdated."""
    awaited: list[asyncio.Event] = field(default_factory=list)
    """Events to set after the next round of probes, or when the machine is lost."""
    task: asyncio.Task[None] | None = None
    link: AgentConnection | None = None
    refresh: bool = False
    """Whether facts from probes are outdated once there is a new connection."""
    renewing: bool = False
    """Whether the connection is being closed on purpose, which says nothing about the machine."""
    missed: asyncio.TimerHandle | None = None
    """Timer after which a machine counts as lost if its connection was closed here and no new one was made."""
    tried: bool = False
    """Whether the observation is newer than the start and the last clock gap."""
    asked: bool = False
    """Whether somebody waits for the next report, whatever is in it: to see what was changed."""
    answering: bool = False
    """Whether the report that is being requested is such a one."""
