"""One run of `up`: starts, watches and stops the processes, and prints events."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.bootstrap import CONSOLE, Home
from reconciler.cli.commands.read.events import event_line
from reconciler.cli.commands.read.plan import told_once
from reconciler.cli.core.app import INTERRUPTED_STATUS, Settings
from reconciler.cli.core.client import Client
from reconciler.cli.output.kind_columns import state, tables
from reconciler.cli.output.screen import Screen
from reconciler.errors import Conflict, Invalid, ReconcilerError, Refused, Unreachable
from reconciler.services.supervise import Child, Supervisor, being_switched
from reconciler.source.git.repository import EMPTY
from reconciler.wire import answers, objects
from reconciler.wire.admin import Get, ListEvents, ShowPlan, ShowStatus, Stop
from reconciler.wire.file_identity import FileIdentity

from .question import QUESTION, ask_endpoint, request_body

if TYPE_CHECKING:
    from _typeshed import HasFileno

TICK_SECONDS = 0.1
LOOK_SECONDS = 0.3
FOLLOW_SECONDS = 5.0
"""Time between two looks at the home and the sizes of the logs when nothing happens."""
EVENTS_SECONDS = 60.0
"""Longest time that the controller may delay an answer without events."""
SIGNALS_MAX = 4096
REMIND_SECONDS = 1.5
ANSWER_SECONDS = 2.0
"""A controller that takes longer is reported as not answering, because `up` itself must stay responsive."""
ONCE_SECONDS_MAX = 120.0
ACCEPT_SECONDS_MAX = 10.0
"""Time for a controller that is still starting to receive the request to stop everything."""
STOP_SECONDS_MAX = 60.0
LOG_LINES = 5
EXAMPLE = ("model", "messages")
"""Fields of a first request in the example; more would not fit a line."""


@dataclass(slots=True)
class UpOptions:
    """The kind of end that signals have requested."""

    woken: int
    """Descriptor of a pipe that gets a byte for each signal, and for the end of each child."""
    stops: int = 0
    """Number of times that Ctrl-C was pressed; the second one ends all waiting."""
    leave: bool = False

    @property
    def any(self) -> bool:
        return self.leave or self.stops > 0

    def wait(self, seconds: float, *connections: HasFileno) -> bool:
        """Wait at most ``seconds`` for a signal, the end of a child, or an answer. Return whether there is an answer."""
        awaited = [each.fileno() for each in connections]
        ready, _, _ = select.select([self.woken, *awaited], [], [], seconds)
        if self.woken in ready:
            os.read(self.woken, SIGNALS_MAX)
        return not set(awaited).isdisjoint(ready)


@contextmanager
def signals() -> Iterator[UpOptions]:
    """Handle SIGINT as a request to stop everything, SIGTERM and SIGHUP (a closed terminal) to leave ranks running."""
    woken, waking = os.pipe()
    for descriptor in (woken, waking):
        os.set_blocking(descriptor, False)
    options = UpOptions(woken)

    def on_interrupt(number: int, frame: object) -> None:
        options.stops += 1

    def on_terminate(number: int, frame: object) -> None:
        options.leave = True

    handlers: dict[int, Callable[[int, object], None]] = {
        signal.SIGINT: on_interrupt,
        signal.SIGTERM: on_terminate,
        signal.SIGHUP: on_terminate,
        signal.SIGCHLD: lambda number, frame: None,  # with a handler it wakes as the others do
    }
    told_before = signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield options
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(told_before)
        os.close(woken)
        os.close(waking)


@dataclass(slots=True)
class Session:
    """One run of `up`. The supervisor's first child is the controller."""

    _settings: Settings
    _say: Screen
    _options: UpOptions
    _supervisor: Supervisor
    _identity: FileIdentity
    _began_at: float
    """A time before any service was started, in seconds since the Unix epoch; events from then on are shown."""
    _revision: str | None = None
    """The repository's newest commit; None if it is empty or not used."""
    _last_event: int = 0
    _looked_at: float = 0.0
    _waits_for: str = "the controller to start"
    _welcomed: bool = False
    _events: Client | None = None
    """The connection that will bring the next events."""

    @property
    def _controller(self) -> Child:
        return self._supervisor.children[0]

    def run(self, question: str | None) -> int:
        """Run until Ctrl-C, or until ``question`` is answered. Return the exit status."""
        self._say.show("starting the controller and the gateway ...")
        self._supervisor.start()
        try:
            return self._forever() if question is None else self._ask_once(question)
        finally:
            try:
                self._end()
            finally:
                switched = self._options.leave and being_switched(self._settings.home)
                self._supervisor.end(but_handing_over=switched)

    def _forever(self) -> int:
        while not self._options.any:
            if self._welcomed:
                self._follow()
            else:
                self._tick()
        return 0

    def _ask_once(self, question: str) -> int:
        deadline = time.monotonic() + ONCE_SECONDS_MAX
        while (model := self._served()) is None:
            self._tick()
            if self._options.any:
                return INTERRUPTED_STATUS
            if time.monotonic() > deadline:
                raise Invalid(self._not_ready())
        endpoint, name = model
        self._say(f"\n> {question}")
        self._say(ask_endpoint(endpoint, name, question) + "\n")
        return 0

    def _not_ready(self) -> str:
        lines = [f"not ready after {ONCE_SECONDS_MAX:.0f} s; waiting for: {self._waits_for}"]
        for child in self._supervisor.children:
            lines += [f"last lines of {child.log}:", child.last_lines(LOG_LINES) or "(none)"]
        return "\n".join(lines)

    # --- looking -----------------------------------------------------------------------------------

    def _client(self) -> Client:
        return Client(self._settings.socket, ANSWER_SECONDS)

    def _served(self) -> tuple[str, str] | None:
        """Return the endpoint and a deployment, once every deployment is served."""
        if not self._welcomed:
            return None
        try:
            with self._client() as client:
                endpoint = client.ask(ShowStatus())["localEndpoint"]
                deployments = client.ask(Get("ModelDeployment"))["items"]
        except (Unreachable, Refused):
            return None
        behind = [f"{d['metadata']['name']} ({state(d)})" for d in deployments if state(d) != "Ready"]
        wanted = [d["metadata"]["name"] for d in deployments if d["spec"]["replicas"]]
        if behind:
            self._waits_for = ", ".join(behind)
        elif not wanted:
            raise Invalid("--once has nothing to ask: the manifests have no ModelDeployment with replicas")
        return (endpoint, wanted[0]) if endpoint and wanted and not behind else None

    def _restart_children(self) -> None:
        """Restart dead children, unless the home was removed: restarting would create a new one."""
        if self._identity.replaced:
            raise Conflict(
                f"{self._settings.home} was removed: everything that ran there ends; "
                "start again with: reconciler up"
            )
        self._supervisor.restart_dead()

    def _tick(self) -> None:
        self._restart_children()
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = time.monotonic()
            try:
                with self._client() as client:
                    self._print_events(client)
                    if not self._welcomed:
                        self._await_calm(client)
            except (Unreachable, Refused):
                if self._say.seconds_silent > REMIND_SECONDS and not self._welcomed:
                    self._say.show("... waiting for the controller to answer")
        self._options.wait(TICK_SECONDS)

    def _follow(self) -> None:
        """Print events as they come, and restart dead children. It sleeps until there is something to see."""
        self._restart_children()
        due = self._supervisor.seconds_to_restart
        try:
            if self._events is None:
                self._events = self._client()
                self._await_events(self._events)
            if self._options.wait(FOLLOW_SECONDS if due is None else due, self._events):
                self._print(self._events.answer())
                self._await_events(self._events)
        except (Unreachable, Refused):
            self._forget_events()
            self._options.wait(LOOK_SECONDS)

    def _await_events(self, client: Client) -> None:
        client.send(ListEvents(self._last_event, since=self._began_at, wait_seconds=EVENTS_SECONDS))

    def _forget_events(self) -> None:
        if self._events is not None:
            self._events.close()
        self._events = None

    def _print_events(self, client: Client) -> None:
        self._print(client.ask(ListEvents(self._last_event, since=self._began_at)))

    def _print(self, body: answers.Events) -> None:
        self._last_event = body["last"]
        for event in body["items"]:
            self._say(event_line(event))

    def _await_calm(self, client: Client) -> None:
        """Show the awaited steps until the controller has nothing left to do."""
        status, items = client.ask(ShowStatus()), client.ask(Get())["items"]
        gateway = any(item["kind"] == "Gateway" for item in items)
        unread = self._revision is not None and status["revision"] == EMPTY
        waits = status.get("gatewayWaits") if status["endpoint"] or not gateway else "the gateway to listen"
        if status["settled"] and not unread and not waits:
            self._welcomed = True
            self._print_ready(client, status, items)
            return
        plan = client.ask(ShowPlan())
        texts = [each["text"] for part in ("steps", "waiting", "refused") for each in plan[part]]
        self._waits_for = next(iter(texts), waits or "reading the manifests")
        if self._say.seconds_silent > REMIND_SECONDS:
            self._say.show(f"... {self._waits_for}")

    # --- messages ----------------------------------------------------------------------------------

    def _print_ready(
        self, client: Client, status: answers.ControllerStatus, items: list[objects.Object]
    ) -> None:
        ranks = client.ask(Get("Rank"))["items"]
        parts = [tables(items), tables(ranks)]
        self._say("\n" + "\n\n".join(part for part in parts if part))
        for refused in told_once(client.ask(ShowPlan())["refused"]):
            self._say(f"\nnot done: {refused}")
        home = shlex.quote(str(self._settings.home))
        if not items:
            self._say(f"there are no manifests yet; commit some with: reconciler --home {home} apply -f DIR")
        elif status["endpoint"]:
            self._say(f"\nendpoint: {status['endpoint']}{_port_note(items, status['endpoint'])}")
            self._print_example(status["endpoint"], items)
        else:
            self._say("\nthere is no endpoint: the manifests have no Gateway")
        if console := self._console():
            self._say(f"console:  {console}")
        self._say(f"          reconciler --home {home} get all")

    def _console(self) -> str:
        """Return the console's URL, or the reason why it does not listen; empty if there is none, or nothing is known yet."""
        if not any(child.name == CONSOLE and child.alive for child in self._supervisor.children):
            return ""
        with suppress(OSError, ValueError, LookupError, TypeError):
            state = json.loads(Home(self._settings.home).console.read_bytes())
            return state["url"] or (state["problem"] and f"not to be reached: {state['problem']}")
        return ""

    def _print_example(self, endpoint: str, items: list[objects.Object]) -> None:
        served = [
            item["metadata"]["name"]
            for item in items
            if item["kind"] == "ModelDeployment" and item["spec"]["replicas"] and state(item) == "Ready"
        ]
        if served:
            example = request_body(served[0], QUESTION)
            body = json.dumps({key: value for key, value in example.items() if key in EXAMPLE})
            self._say(f"try:      curl -s {endpoint}/chat/completions -H 'Content-Type: application/json' \\")
            self._say(f"            -d '{body}'")

    # --- ending ------------------------------------------------------------------------------------

    def _end(self) -> None:
        self._forget_events()
        if self._identity.replaced:
            return
        if self._options.leave:
            self._say("ranks and agents keep running; the next `reconciler up` adopts them")
        else:
            self._stop_everything()

    def _stop_everything(self) -> None:
        """Let the controller stop ranks and agents, then itself; if it dies meanwhile, the next one finishes."""
        self._say("stopping every rank and agent (press Ctrl-C again to stop waiting) ...")
        stopping = _Stopping(self._controller)
        while not stopping.done:
            if self._options.stops > 1 or stopping.late:
                self._say("not everything has stopped; the next `reconciler up` adopts what still runs")
                return
            self._restart_children()
            with suppress(ReconcilerError), self._client() as client:
                stopping.ask(client)
                self._print_events(client)
            time.sleep(TICK_SECONDS)
        self._say("stopped")


class _Stopping:
    """The progress of a controller that stops everything."""

    def __init__(self, controller: Child) -> None:
        self._controller = controller
        self._began_at = time.monotonic()
        self._accepted_by: int | None = None
        controller.delay = controller.restart_at = 0.0

    def ask(self, client: Client) -> None:
        process = self._controller.process
        if process is not None and self._accepted_by != process.pid:
            client.ask(Stop())
            self._accepted_by = process.pid
            self._controller.ended = True

    @property
    def done(self) -> bool:
        """Return whether the controller that was asked has ended in order; after any other end, it is restarted."""
        process = self._controller.process
        status = process.poll() if process is not None and process.pid == self._accepted_by else None
        self._controller.ended = self._controller.ended and status in (None, 0)
        return status == 0

    @property
    def late(self) -> bool:
        """Return whether to stop waiting; a restarted controller gets the time of a new one."""
        now, process = time.monotonic(), self._controller.process
        accepted = process is not None and process.pid == self._accepted_by
        deaf_since = max(self._began_at, self._controller.started_at)
        return now - self._began_at > STOP_SECONDS_MAX or (
            not accepted and now - deaf_since > ACCEPT_SECONDS_MAX
        )


def _port_note(items: list[objects.Object], endpoint: str) -> str:
    """Say why the endpoint has another port than the manifest."""
    wanted = next(item["spec"]["listen"] for item in items if item["kind"] == "Gateway")
    port = wanted.rpartition(":")[2]
    return "" if f":{port}/" in endpoint else f"   ({wanted} is taken)"
