"""A cluster's home: its folders, its checks, and the locks of its services.

Every command that changes something needs it, so it imports nothing that takes long.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.errors import Conflict, Invalid, Unwritable
from reconciler.services.lock import TAKE_OVER, Lock, held, started_as
from reconciler.wire.file_identity import FileIdentity
from reconciler.wire.paths import agent_socket

from . import origin, swap

if TYPE_CHECKING:
    from reconciler.state import NodeName

CONTROLLER, GATEWAY, CONSOLE = "controller", "gateway", "console"
"""The services of a home, by the names of their commands and locks."""
LOG_FORMAT = "%(levelname)s %(name)s: %(message)s"
"""The format of the logs of the processes that `up` supervises."""


def own_start() -> str:
    """Return the start of this process, without the option to take over."""
    return started_as([word for word in sys.argv[1:] if word != TAKE_OVER])


class _Within:
    """The path of a file or folder within a home."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, home: Home, owner: type[Home]) -> Path:
        return home.root / self._name


@dataclass(frozen=True, slots=True)
class Home:
    """The folder with all state of one cluster: ``$RECONCILER_HOME``."""

    root: Path

    repo = _Within("cluster.git")
    socket = _Within("controller.sock")
    source = _Within("source.yaml")
    """The settings of a remote repository; the file is missing where there is none."""
    routes = _Within("routes.json")
    gateway = _Within("gateway.json")
    prompts = _Within("prompts.json")
    """The gateway's file of refused prompts."""
    console = _Within("console.json")
    """The file with the console's address."""
    supervision = _Within("supervision.json")
    """The file with the acts of `up` on services that gave no answer."""
    usage = _Within("usage.json")
    """The gateway's file with the use of keys."""
    gateway_figures = _Within("figures.json")
    """The gateway's file with figures of requests."""
    figures = _Within("figures")
    """The folder in which figures of the last hours survive a restart."""
    gateways_on_nodes = _Within("fronts.json")
    artifacts = _Within("artifacts")
    """The controller's file of the nodes that have their own gateway."""
    addresses = _Within("addresses.json")
    """The controller's file of the addresses at which machines answered last."""
    store = _Within("store.db")
    models = _Within("models")
    """The model directory of all local nodes, which share one machine."""
    run = _Within("run")
    gateway_key = _Within("keys/gateway")
    """The gateway's key for ranks on other machines."""

    def lock_of(self, service: str) -> Path:
        """Return the lock that a service holds as long as it runs."""
        return self.root / f"{service}.lock"

    def node(self, name: NodeName) -> Path:
        """Return the folder of a local node's agent."""
        return self.root / "nodes" / name

    def nodes_with_agents(self) -> list[NodeName]:
        """Return local nodes that ever had an agent, wanted or not: only the agent can report leftover ranks."""
        from reconciler.state import NodeName

        return sorted(NodeName(lock.parent.name) for lock in self.root.glob("nodes/*/agent.lock"))

    def create(self) -> None:
        """Create missing folders, accessible to their owner only."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        swap.finish(self.root)
        for folder in (self.root, self.models, self.run, self.root / "nodes", self.root / "agents"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def check(self) -> None:
        """Raise ``Invalid`` if this path cannot be a home, ``Unwritable`` if it cannot be written now, ``Conflict`` if it is
        a copy of a home that still exists."""
        try:
            agent_socket(str(self.run), "any")  # the length of a socket's path is limited
        except ValueError as error:
            raise Invalid(str(error)) from None
        if not self.root.exists():
            return
        status = self.root.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise Invalid(f"{self.root} is not a folder; choose another --home")
        if status.st_uid != os.geteuid():
            raise Invalid(
                f"{self.root} belongs to user {status.st_uid}, but this is user {os.geteuid()};"
                " run as that user, or choose another --home"
            )
        if status.st_mode & stat.S_IWOTH:
            raise Invalid(
                f"everybody may write to {self.root}, and could change what runs; forbid it with: chmod o-w {self.root}"
            )
        try:
            with tempfile.TemporaryFile(dir=self.root) as file:
                file.write(b"room")
                file.flush()
        except OSError as error:
            raise Unwritable(f"{self.root} cannot be written: {error.strerror}") from error
        origin.settle(self.root)

    @contextlib.contextmanager
    def lock(self, service: str = CONTROLLER) -> Iterator[FileIdentity]:
        """Allow one process of a service at a time. Raises ``Conflict`` naming the process that runs."""
        with self.lock_to_hand_over(service) as lock:
            yield lock.identity

    @contextlib.contextmanager
    def lock_to_hand_over(self, service: str) -> Iterator[Lock]:
        """Do the same for a service that hands its lock over to its successor."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        origin.settle(self.root)
        with held(self.lock_of(service), own_start()) as (lock, holder):
            if lock is None:
                raise Conflict(
                    f"{self.root} is in use by another {service} (pid {holder}); `reconciler up` takes it over, and ends"
                    " it with Ctrl-C"
                )
            yield lock
