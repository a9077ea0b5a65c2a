"""One run, from emulated Macs that are unpacked to the end of the last process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.emulated_macs.macs import macs

from .breaking import Breaker
from .events import Listener
from .faults import NODES, draw
from .growth import Growth
from .load import Load
from .person import DEPLOYMENT, Person
from .verdict import KINDS_MINUTES_MIN, Done, Run

FORMED_SECONDS, CALM_SECONDS = 300.0, 240.0
CALM_SHARE = 0.05
"""Of the time: before its end nothing new is broken for so long."""
PROGRESS_SECONDS = 10.0
SAMPLE_SECONDS = 5.0
RANK = "-m reconciler.runner"
GROWTH = "  growth: {idle: 1s, groupAge: 30s, nodeUptime: 10s}\n"
"""So that a group becomes as good as it can be again within the run."""
HEALTH = "  health: {stallAfter: 20s}\n"
"""So that a rank that nothing ends is given up while a request is held for it."""
LOST = "  lostAfter: 5s\n"
"""So that three serve while one is away: a machine that restarts is back in less than the half minute by default."""
JUDGED = ("controller", "gateway")
"""Live as long as the run does."""


@dataclass(slots=True)
class Chaos:
    """``run`` it once. ``progress`` is given a line now and then."""

    folder: Path
    minutes: float
    seed: int
    progress: Callable[[str], None]
    growth: Growth = field(default_factory=Growth)
    happened: list[tuple[float, str]] = field(default_factory=list)
    """What is told in ``story``, with its moment."""
    _progressed_at: float = 0.0
    _sampled_at: float = 0.0

    def run(self) -> Run:
        """Raises ``AssertionError`` where the cluster does not come up."""
        run = None
        try:
            with macs(self.folder, "four-studios", change=_impatient) as made:
                self.progress("four emulated Macs are being joined")
                made.wait("a mesh of four", lambda: _mesh(made), FORMED_SECONDS)
                run = self._broken(made)
        except AssertionError as error:
            if run is None:
                raise
            run = replace(run, left=str(error))
        return run

    def timeline(self) -> list[str]:
        """A line for each fault, event and failed request, in their order, with seconds since the first."""
        happened = sorted(self.happened)
        return [f"{at - happened[0][0]:7.1f} {text}" for at, text in happened]

    def _broken(self, made: Cluster) -> Run:
        load = Load(made.endpoint(), DEPLOYMENT)
        listener = Listener(made.background("events", "-w", "-o", "json"))
        person = Person(made)
        breaker = Breaker(made, lambda: self._tick(made, load, breaker, person))
        made.wait("what has been told so far", lambda: listener.events)
        made.ask("sandbox", "status")  # the first such command has a lot to load
        begun = time.monotonic()
        load.start()
        try:
            breaker.play(draw(self.seed, self.minutes * (1 - CALM_SHARE)), self.minutes * 60)
            ended = time.monotonic()
            serves = self._calms(made, load, person, breaker)
        finally:
            load.end()
            listener.end()
            self.happened += [(at, f"FAULT {fault.kind} {fault.target}") for fault, at in breaker.happened]
            self.happened += [
                (event.at, f"  {event.object}: {event.reason}: {event.message}") for event in listener.events
            ]
            self.happened += [(r.begun_at, f"REQUEST {r}") for r in load.requests if not r.answered]
        done = []
        for fault, at in breaker.happened:
            event = listener.detected(fault, at)
            done.append(
                Done(
                    fault,
                    at,
                    event.at if event else None,
                    event.reason if event else "",
                    load.served_since(at),
                )
            )
        grown = self.growth.grown(begun, ended)
        unjudged = (
            sorted(set(JUDGED) - {each.name for each in grown}) if self.minutes >= KINDS_MINUTES_MIN else []
        )
        return Run(self.minutes, done, load.requests, grown, "", serves, person.restarts, unjudged)

    def _calms(self, made: Cluster, load: Load, person: Person, breaker: Breaker) -> bool:
        """Whether a request is answered, and the deployment ready, after everything is over."""
        over = time.monotonic()
        while time.monotonic() < over + CALM_SECONDS:
            self._tick(made, load, breaker, person)
            with suppress(AssertionError, KeyError):
                if load.served_since(over) and made.deployments()[DEPLOYMENT]["readyReplicas"] == 1:
                    return True
            time.sleep(0.5)
        return False

    def _tick(self, made: Cluster, load: Load, breaker: Breaker, person: Person) -> None:
        now = time.monotonic()
        person.look()
        if now >= self._sampled_at + SAMPLE_SECONDS:
            self._sampled_at = now
            self.growth.sample(now, _lasting(made))
        if now >= self._progressed_at + PROGRESS_SECONDS:
            self._progressed_at = now
            answered = sum(request.answered for request in load.requests)
            last = " ".join(f"{fault.kind} {fault.target}" for fault, _ in breaker.happened[-1:])
            self.progress(
                f"{len(breaker.happened)} faults, last {last or '-'}; {answered}/{len(load.requests)} answered"
            )


def _impatient(text: str) -> str:
    """A manifest of the example, for one who would rather have fewer machines serve than wait for one."""
    return text.replace("  placement:\n", f"{GROWTH}{HEALTH}  placement:\n").replace(
        "  repair:", f"{LOST}  repair:"
    )


def _mesh(made: Cluster) -> bool:
    status = made.deployments()[DEPLOYMENT]
    groups = [(len(group["nodes"]), group["transport"].split()[0]) for group in status["groups"]]
    return status["readyReplicas"] == 1 and groups == [(len(NODES), "jaccl")]


def _lasting(made: Cluster) -> Iterator[tuple[str, int, int]]:
    """What each of the processes is that live as long as the cluster, its number, and that of the ranks that it looks
    after."""
    processes = made.processes()
    for pid, line in processes.items():
        node = next((name for name in NODES if f"/machines/{name}/" in line), "")
        words = line.split()
        service = next((word for word in words if word in JUDGED), "")
        if service and "-m" in words:
            yield service, pid, 0
        elif ".pyz serve" in line and not line.startswith("/bin/sh"):
            ranks = [each for each in processes.values() if f"/machines/{node}/" in each and RANK in each]
            yield f"agent of {node}", pid, len(ranks)
