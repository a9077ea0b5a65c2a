"""The service that keeps `reconciler up` of one home running. Pure.

As for agents (``remote/bootstrap/service.py``), it runs a script of the user's, and keeps running as long as the script
exists. So another version needs a changed link, the end of `up`, and only the user's rights. Only creating the service
takes an administrator. The script waits while a command replaces the version.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from reconciler.remote.bootstrap.actions import Action, Run, Write
from reconciler.service_managers import launchd, unmanaged
from reconciler.service_managers.definitions import Keeper, definition_path, plist, unit

STOP_SECONDS = 30
"""`up` waits 15 s for the gateway, which waits 10 s for answers."""
_PATH = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
"""Folders with git: a service does not have the ``PATH`` of a login."""
_SCRIPT = """\
#!/bin/sh
# Runs the cluster of {home}; written by `reconciler install`, run by {name}.
export HOME={user_home} LC_ALL=C PATH={path}
if [ -r {environment} ]; then set -a; . {environment}; set +a; fi
while pid=$(cat {switching} 2>/dev/null) && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
version=$(cd {current} && pwd -P) || exit 1
exec "$version/bin/python" -P -m reconciler --home {home} up 2> {words}
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """The properties of this machine and its user that a service depends on."""

    user: str
    uid: int
    user_home: PurePosixPath
    keeper: Keeper
    administrator: str = ""
    """The way to act as root: ``root`` itself, or ``sudo`` without a password; empty if neither is possible."""


@dataclass(frozen=True, slots=True)
class UpService:
    """The service of one home."""

    home: Path
    machine: Machine

    @property
    def name(self) -> str:
        """Return its name for launchd and systemd, unique for each user and home."""
        own = self.home == Path(self.machine.user_home, ".reconciler")
        other = "" if own else f"-{hashlib.sha256(str(self.home).encode()).hexdigest()[:8]}"
        return f"reconciler.up.{self.machine.user}{other}"

    @property
    def folder(self) -> Path:
        return self.home / "service"

    @property
    def script(self) -> Path:
        """Return the path of the script, which exists as long as `up` should run."""
        return self.folder / "serve"

    @property
    def words(self) -> Path:
        """Return the path of the last error output of `up`."""
        return self.folder / "serve.log"

    @property
    def definition(self) -> PurePosixPath:
        """Return the path of the definition for the service manager."""
        return definition_path(self.machine.keeper, self.machine.user_home, self.name)

    def script_text(self) -> str:
        """Return the content of ``script``."""
        versions = self.home / "versions"
        return _SCRIPT.format(
            name=self.name,
            home=shlex.quote(str(self.home)),
            user_home=shlex.quote(str(self.machine.user_home)),
            path=_PATH,
            environment=shlex.quote(str(self.folder / "environment")),
            switching=shlex.quote(str(versions / "switching")),
            current=shlex.quote(str(versions / "current")),
            words=shlex.quote(str(self.words)),
        )

    def definition_text(self) -> str:
        """Return the content of ``definition``."""
        if self.machine.keeper is Keeper.LAUNCHD:
            return plist(self.name, self.machine.user, str(self.script))
        owner = self.machine.user if self.machine.keeper is Keeper.SYSTEMD else ""
        return unit(f"reconciler up for {self.home}", owner, str(self.script), STOP_SECONDS)

    def install_actions(self, script: str | None, definition: str | None, running: int) -> Sequence[Action]:
        """Return the actions that create the service, in order; empty if all is in place.

        ``script``, ``definition``: the present contents. ``running``: the pid of an `up` that runs without the service,
        or 0.
        """
        actions = []
        if script != self.script_text():
            text = self.script_text()
            write = Write(PurePosixPath(self.script), text.encode(), 0o700, text)
            actions.append(
                Action("write the script that the service runs, for as long as it is there", write)
            )
        if definition == self.definition_text():
            return actions
        actions += self._define()
        if running:
            why = (
                "end the `up` that runs without the service; ranks continue, and the service takes them over"
            )
            actions.append(self._action(why, unmanaged.end(running)))
        if self.machine.keeper is Keeper.LAUNCHD:
            load = launchd.load(self._as_root("launchctl"), self.name, str(self.definition))
        else:
            actions.append(self._by("let systemd read it", "systemctl", "daemon-reload"))
            load = (*self._as_root("systemctl"), "enable", "--now", f"{self.name}.service")
        actions.append(self._action("start `up` now and at every boot", load))
        return actions

    def remove_actions(self, definition: str | None) -> Sequence[Action]:
        """Return the actions that remove the definition from the service manager, in order; empty if there is none."""
        if definition is None:
            return ()
        if self.machine.keeper is Keeper.LAUNCHD:
            unload = launchd.unload(self._as_root("launchctl"), self.name)
            return (
                self._action("unload the service", unload),
                self._by("remove its definition", "rm", "-f", str(self.definition)),
            )
        return (
            self._by(
                "stop the service, now and at every boot",
                "systemctl",
                "disable",
                "--now",
                f"{self.name}.service",
            ),
            self._by("remove its definition", "rm", "-f", str(self.definition)),
            self._by("let systemd forget it", "systemctl", "daemon-reload"),
        )

    def _define(self) -> Sequence[Action]:
        text = self.definition_text()
        if self.machine.keeper is Keeper.SYSTEMD_OF_USER:
            why = "write the service of your own systemd"
            return (Action(why, Write(self.definition, text.encode(), 0o644, text)),)
        why = "define the service, which starts again after a restart of the machine"
        if self.machine.administrator == "root":
            return (Action(why, Write(self.definition, text.encode(), 0o644, text)),)
        if self.machine.administrator == "sudo":
            return (Action(why, Run(("sudo", "-n", "tee", str(self.definition)), text)),)
        return (Action(why, Run(("sudo", "tee", str(self.definition)), text), by_person=True),)

    def _by(self, why: str, tool: str, *words: str) -> Action:
        return self._action(why, (*self._as_root(tool), *words))

    def _action(self, why: str, argv: tuple[str, ...]) -> Action:
        by_person = not self.machine.administrator and self.machine.keeper is not Keeper.SYSTEMD_OF_USER
        return Action(why, Run(argv), by_person)

    def _as_root(self, tool: str) -> tuple[str, ...]:
        if self.machine.keeper is Keeper.SYSTEMD_OF_USER:
            return (tool, "--user") if tool == "systemctl" else (tool,)
        return {"root": (tool,), "sudo": ("sudo", "-n", tool)}.get(self.machine.administrator, ("sudo", tool))
