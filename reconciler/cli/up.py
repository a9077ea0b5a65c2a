"""`up`: a whole cluster in the foreground."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from reconciler.errors import Conflict, Invalid, ReconcilerError, Refused, Unreachable
from reconciler.wire.admin import Get, ListEvents, ShowPlan, ShowStatus, Stop

from .app import Settings
from .client import Client
from .events import event_line
from .read import tables
from .seeding import seed_manifests, seed_models
from .supervise import Child, Supervisor

QUESTION = "What is reconciler?"
TICK_SECONDS = 0.1
LOOK_SECONDS = 0.3
REMIND_SECONDS = 2.0
ONCE_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 45.0


@click.command()
@click.option(
    "-f", "--filename", "paths", multiple=True, help="Manifests to start an empty cluster repository with."
)
@click.option(
    "--watch",
    type=click.Path(path_type=Path),
    help="Read manifests from this folder instead of git, for trying.",
)
@click.option("--models", type=click.Path(path_type=Path), help="Copy model folders from here when missing.")
@click.option("--any-port", is_flag=True, help="Take the next free port when the endpoint's is taken.")
@click.option("--once", is_flag=True, help="Ask one question when ready, then shut down.")
@click.pass_obj
def up(settings: Settings, /, paths: tuple[str, ...], models: Path | None, once: bool, **how: Any) -> int:
    """Run the controller and the gateway here, and keep them running.

    Ctrl-C stops every rank and agent on this machine, then ends. SIGTERM ends the controller and the
    gateway only: ranks go on, and the next `up` adopts them.

    \b
    Examples:
      reconciler up -f manifests/ --models examples/models
      reconciler up --watch manifests/
    """
    if how["watch"] is not None and paths:
        raise click.UsageError("--watch and -f exclude each other: a watched folder needs no repository")
    say = _Screen()
    with _only_one(settings), _signals() as asked:
        if how["watch"] is None:
            seed_manifests(settings, paths, say)
        if models is not None:
            seed_models(models, settings.home / "models", say)
        session = _Session(settings, say, asked, _supervisor(settings, say, how["watch"], how["any_port"]))
        return session.run(once)


class _Screen:
    """Says things: lines that stay, and on a terminal one that shows what goes on right now."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._shown = False

    def __call__(self, text: str) -> None:
        self._clear()
        click.echo(text)

    def now(self, text: str) -> None:
        """What is going on; the next line of any kind takes its place."""
        if not self._live:
            click.echo(text)
            return
        self._clear()
        sys.stdout.write(click.style(text.splitlines()[0][:98], dim=True))
        sys.stdout.flush()
        self._shown = True

    def _clear(self) -> None:
        if self._shown:
            sys.stdout.write("\r\x1b[K")
            self._shown = False


@dataclass(slots=True)
class _Asked:
    """Which end was asked for, by signals."""

    stop: bool = False
    leave: bool = False

    @property
    def any(self) -> bool:
        return self.stop or self.leave


@contextmanager
def _signals() -> Iterator[_Asked]:
    asked = _Asked()

    def on_interrupt(number: int, frame: object) -> None:
        asked.stop = True

    def on_terminate(number: int, frame: object) -> None:
        asked.leave = True

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, on_interrupt),
        signal.SIGTERM: signal.signal(signal.SIGTERM, on_terminate),
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _only_one(settings: Settings) -> Iterator[None]:
    """One `up` for a home at a time. Raises ``Conflict`` naming the process that runs."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (settings.home / "up.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip()
            raise Conflict(f"reconciler up runs already for {settings.home} (pid {holder})") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _supervisor(settings: Settings, say: _Screen, watch: Path | None, any_port: bool) -> Supervisor:
    program = (sys.executable, "-m", "reconciler", "--home", str(settings.home))
    watching = ("--watch", str(watch.absolute())) if watch is not None else ()
    logs = settings.home / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    return Supervisor(
        [
            Child("controller", (*program, "controller", *watching), logs / "controller.log"),
            Child(
                "gateway", (*program, "gateway", *(("--any-port",) if any_port else ())), logs / "gateway.log"
            ),
        ],
        say,
    )


@dataclass(slots=True)
class _Session:
    """One run of `up`, from the first process to the last."""

    settings: Settings
    say: _Screen
    asked: _Asked
    supervisor: Supervisor
    last_event: int = -1
    looked_at: float = 0.0
    spoke_at: float = field(default_factory=time.monotonic)
    ready: bool = False

    def run(self, once: bool) -> int:
        """Until Ctrl-C, or until the question is answered; the exit status."""
        self.supervisor.start()
        status = 0
        try:
            status = self._once() if once else self._forever()
        finally:
            if not self.asked.leave:
                self._stop_everything()
            self.supervisor.end()
        return status

    def _forever(self) -> int:
        while not self.asked.any:
            self._tick()
        return 0

    def _once(self) -> int:
        deadline = time.monotonic() + ONCE_SECONDS_MAX
        while not self.ready and not self.asked.any:
            self._tick()
            if time.monotonic() > deadline:
                self.say(
                    f"not ready after {ONCE_SECONDS_MAX:.0f} s; the logs are in {self.settings.home / 'logs'}"
                )
                return 1
        if self.asked.any:
            return 130
        with Client(self.settings.socket) as client:
            status = client.ask(ShowStatus())
            routed = client.ask(Get("ModelDeployment"))["items"]
        self.say(f"\n> {QUESTION}")
        self.say(_answer(status["endpoint"], routed[0]["metadata"]["name"]) + "\n")
        return 0

    def _tick(self) -> None:
        self.supervisor.tend()
        if time.monotonic() - self.looked_at >= LOOK_SECONDS:
            self.looked_at = time.monotonic()
            with suppress(Unreachable, Refused):
                self._look()
            if not self.ready and time.monotonic() - self.spoke_at > REMIND_SECONDS:
                self._now("starting the controller")
        time.sleep(TICK_SECONDS)

    def _look(self) -> None:
        with Client(self.settings.socket) as client:
            if self.last_event < 0:
                self.last_event = client.ask(ListEvents(limit=1))["last"] if self._adopts(client) else 0
            body = client.ask(ListEvents(self.last_event))
            self.last_event = body["last"]
            for event in body["items"]:
                self.say(event_line(event))
                self.spoke_at = time.monotonic()
            if not self.ready:
                self._await_ready(client)

    @staticmethod
    def _adopts(client: Client) -> bool:
        """Whether there is a story from before this run, which need not be told again."""
        return bool(client.ask(Get("Rank"))["items"])

    def _await_ready(self, client: Client) -> None:
        status = client.ask(ShowStatus())
        if status["settled"] and status["endpoint"]:
            self.ready = True
            self._welcome(client, status["endpoint"])
            return
        if time.monotonic() - self.spoke_at > REMIND_SECONDS:
            plan = client.ask(ShowPlan())
            entries = plan["refused"] or plan["waiting"] or plan["steps"]
            text = entries[0]["text"] if entries else "waiting for the gateway"
            self._now(f"... {text}")

    def _now(self, text: str) -> None:
        self.spoke_at = time.monotonic()
        self.say.now(text)

    def _welcome(self, client: Client, endpoint: str) -> None:
        items = client.ask(Get())["items"]
        ranks = client.ask(Get("Rank"))["items"]
        parts = [tables(items, None), tables(ranks, "Rank") if ranks else ""]
        self.say("\n" + "\n\n".join(part for part in parts if part))
        self.say(f"\nendpoint: {endpoint}")
        names = [i["metadata"]["name"] for i in items if i["kind"] == "ModelDeployment"]
        if names:
            body = json.dumps({"model": names[0], "messages": [{"role": "user", "content": QUESTION}]})
            self.say(f"try:      curl -s {endpoint}/chat/completions -H 'Content-Type: application/json' \\")
            self.say(f"            -d '{body}'")
        self.say(f"          reconciler --home {self.settings.home} get all")

    def _stop_everything(self) -> None:
        """Have the controller end ranks and agents, then itself."""
        controller = self.supervisor.children[0]
        if not controller.alive or controller.process is None:
            return
        self.say("stopping every rank and agent (ranks finish what they have begun for a few seconds) ...")
        controller.ended = True
        try:
            with Client(self.settings.socket) as client:
                client.ask(Stop())
            controller.process.wait(STOP_SECONDS_MAX)
        except (ReconcilerError, TimeoutError, OSError) as error:
            self.say(f"the controller could not stop everything: {error}")
        except subprocess.TimeoutExpired:
            self.say(f"not everything has stopped after {STOP_SECONDS_MAX:.0f} s; see: reconciler get ranks")
        else:
            self.say("stopped")


def _answer(endpoint: str, model: str) -> str:
    """What the endpoint says to the question. Raises ``Invalid`` when it has no answer."""
    body = {"model": model, "messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
    request = urllib.request.Request(
        f"{endpoint}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            answer: str = json.load(response)["choices"][0]["message"]["content"]
    except (urllib.error.URLError, KeyError, ValueError) as error:
        raise Invalid(f"{endpoint} gave no answer: {error}") from error
    return answer
