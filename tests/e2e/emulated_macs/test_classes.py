"""Classes of faults, brought about on emulated Macs by the commands that people rehearse them with, named by the doctor,
answered by the controller, and taken back. ``classes.yaml`` says what is to be seen: it is read by people.

All of them are played by `make classes`; elsewhere a few, for most of it is waiting.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import MODEL, Cluster, cluster

from .macs import unpacked

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

CASES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("classes.yaml").read_text())
IN_EVERY_RUN = ("C4", "C8")
PLAYED = CASES if os.environ.get("RECONCILER_CLASSES") == "all" else IN_EVERY_RUN
SERVED_SECONDS, NAMED_SECONDS, DONE_SECONDS, HEALED_SECONDS, ANSWERED_SECONDS = (
    240.0,
    180.0,
    180.0,
    240.0,
    60.0,
)
PAUSE_SECONDS = 2.0
"""Between two calls of the doctor, each of which asks every machine."""
NAMES = re.compile("FIRST|SECOND|SPARE|CABLE")
SERVING = f"""{MODEL}---
apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata:
  name: tiny
spec:
  model: tiny
  parallelism: {{strategy: tensor, nodes: 2}}
  serving: {{context: 512, maxBatch: 4}}
  health: {{stallAfter: 10s}}
  growth: {{idle: 1s, groupAge: 1s, nodeUptime: 1s}}
---
apiVersion: reconciler/v1alpha1
kind: Gateway
metadata:
  name: main
spec:
  listen: 127.0.0.1:8400
  auth: {{mode: none}}
"""


@dataclass
class Macs:
    """Three emulated ones, with one deployment on two of them."""

    made: Cluster
    wished: int = 0
    """The epoch that was the first of the wish that is in force."""
    requests: list[threading.Thread] = field(default_factory=list)

    def sandbox(self, commands: list[str]) -> None:
        for command in commands:
            self.made.run("sandbox", *command.split())

    def status(self) -> dict[str, Any]:
        return dict(self.made.json("describe", "deployment", "tiny")["status"])

    def serves(self) -> bool:
        return bool(self.status()["readyReplicas"] == 1)

    def mesh(self) -> int:
        """The epoch of the group that serves over RDMA; 0 where there is none."""
        status = self.status()
        served = status["groups"] if status["readyReplicas"] == 1 else []
        return max((int(group["epoch"]) for group in served if group["transport"] == "jaccl"), default=0)

    def begin(self) -> dict[str, str]:
        """As if nothing had ever happened: a new wish counts no attempts for older ones, and a machine that has booted
        none to set up RDMA. Who is what, then."""
        if not self.wished or self.mesh() != self.wished:
            before = self.epoch()
            self.made.run("rollout", "restart", "deployment/tiny")
            self.made.wait("a group", lambda: self.serves() and self.epoch() > before, SERVED_SECONDS)
            if not self.mesh():
                names = self.names()
                self.sandbox([f"reboot {names[name]}" for name in ("FIRST", "SECOND")])
                self.made.wait("a mesh of two", self.mesh, SERVED_SECONDS)
            self.wished = self.mesh()
        return self.names()

    def epoch(self) -> int:
        """The newest epoch."""
        return max((int(group["epoch"]) for group in self.status()["groups"]), default=0)

    def names(self) -> dict[str, str]:
        (group,) = self.status()["groups"]
        first, second = group["nodes"]
        world = json.loads(self.made.run("sandbox", "status", "-o", "json").stdout)
        (spare,) = {machine["name"] for machine in world["machines"]} - {first, second}
        ends = {tuple(sorted(end[0] for end in (c["a"], c["b"]))): (c["a"], c["b"]) for c in world["cables"]}

        cable = next(f"{n}/{r}" for n, r in ends[tuple(sorted((first, second)))] if n == second)
        return {"FIRST": first, "SECOND": second, "SPARE": spare, "CABLE": cable}

    def waits(self, pattern: str) -> bool:
        """Whether the plan waits with it."""
        return any(re.search(pattern, waiting["text"]) for waiting in self.made.plan()["waiting"])

    def send_request(self) -> None:
        """Have somebody ask for an answer, whatever becomes of it."""

        def wait_for_it() -> None:
            body = {"model": "tiny", "messages": [{"role": "user", "content": "What is an epoch?"}]}
            request = urllib.request.Request(
                f"{self.made.endpoint()}/chat/completions",
                json.dumps(body).encode(),
                {"content-type": "application/json"},
            )
            with suppress(OSError), urllib.request.urlopen(request, timeout=ANSWERED_SECONDS) as answer:
                answer.read()

        requests = threading.Thread(target=wait_for_it)
        requests.start()
        self.requests.append(requests)

    def wait_for_answers(self) -> None:
        """Wait for whatever becomes of what was asked."""
        while self.requests:
            self.requests.pop().join(ANSWERED_SECONDS)

    def doctor(self) -> tuple[int, dict[str, Any]]:
        """Its exit status, and what it says."""
        done = self.made.run("doctor", "-o", "json", check=False)
        return done.returncode, json.loads(done.stdout)

    def incident_texts(self, since: datetime) -> list[str]:
        """What the incidents tell of what was since then, in the order of time: what comes back soon is the same one, and
        its entries are counted."""
        return [entry["text"] for entry in self._entries(since)]

    def wait_for_texts(self, patterns: list[str], since: datetime) -> None:
        """Until the incidents tell all of it, in this order; fails with what they do tell."""
        try:
            self.made.wait("the incidents", lambda: has(self.incident_texts(since), patterns), DONE_SECONDS)
        except AssertionError as error:
            told = "\n".join(self.incident_texts(since))
            raise AssertionError(f"{patterns} are not all in:\n{told}\n{error}") from None

    def asked(self, since: datetime) -> list[str]:
        """What a person was asked for since then."""
        return [entry["text"] for entry in self._entries(since) if entry["kind"] == "person"]

    def _entries(self, since: datetime) -> list[dict[str, Any]]:
        entries = [entry for each in self.made.json("incidents")["items"] for entry in each["entries"]]
        dated = [(datetime.fromisoformat(entry["lastTime"]), entry) for entry in entries]
        return [entry for at, entry in sorted(dated, key=lambda each: each[0]) if at >= since]


@contextmanager
def three_macs() -> Iterator[Macs]:
    """As they are on the first day, until the first group on them serves."""
    with cluster() as made, unpacked(made, "--nodes", "3") as manifests:
        (manifests / "serving.yaml").write_text(SERVING)
        made.start("-f", str(manifests), "--any-port")
        macs = Macs(made)
        made.wait("the first group", macs.mesh, SERVED_SECONDS)
        macs.wished = macs.mesh()
        yield macs


@dataclass(frozen=True)
class Times:
    """How long the parts of one case took, in seconds."""

    case: str
    named: float
    """Until the doctor named it."""
    answered: float
    """Until all that the controller does about it was done."""
    well: float
    """From when it was taken back until the deployment was served and the doctor found nothing."""


HEADERS = ("CASE", "NAMED AFTER", "ANSWERED AFTER", "WELL AFTER IT WAS TAKEN BACK")


def table(times: list[Times]) -> list[str]:
    """A line for each case."""
    rows = [(t.case, *(f"{seconds:.0f} s" for seconds in (t.named, t.answered, t.well))) for t in times]
    form = "{:<14}  {:>11}  {:>14}  {:>28}"
    return [form.format(*row) for row in (HEADERS, *rows)]


@dataclass
class Bench:
    """Macs that one case leaves to the next, which may ask for others."""

    ending: ExitStack
    macs: Macs | None = None
    times: list[Times] = field(default_factory=list)

    @contextmanager
    def lay_out(self, fresh: bool) -> Iterator[Macs]:
        """They are put away where the case does not end well: the next one is to show its own fault."""
        if self.macs is None or fresh:
            self.ending.close()
            self.macs = self.ending.enter_context(three_macs())
        macs, self.macs = self.macs, None
        yield macs
        self.macs = macs


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with ExitStack() as ending:
        made = Bench(ending)
        yield made
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", *table(made.times), sep="\n")


@pytest.mark.parametrize("name", PLAYED)
def test_a_class_is_brought_about_named_answered_and_taken_back(bench: Bench, name: str) -> None:
    with bench.lay_out(CASES[name].get("fresh", False)) as macs:
        case, fault = filled(CASES[name], macs.begin()), class_of(name)
        since, began = datetime.now(UTC), time.monotonic()
        wait = macs.made.wait
        macs.sandbox(case["commands"])
        if "waiting" in case:
            wait("the plan to wait", lambda: macs.waits(case["waiting"]), NAMED_SECONDS)
            macs.sandbox(case["next"])
        if "asked" in case:
            time.sleep(case["asked"])
            macs.send_request()
        wait(
            f"the doctor to name {name}",
            lambda: is_named(fault, case, macs, since),
            NAMED_SECONDS,
            PAUSE_SECONDS,
        )
        named = time.monotonic() - began
        done = case["done"]
        macs.wait_for_texts(done, since)
        answered, back = time.monotonic() - began, time.monotonic()

        macs.sandbox(case.get("back", []))
        if "then" in case:
            macs.made.run(*case["then"].split())
        wait("the doctor to find nothing", lambda: macs.doctor()[0] == 0, HEALED_SECONDS, PAUSE_SECONDS)
        wait("the deployment to be served", macs.serves, HEALED_SECONDS)
        bench.times.append(Times(name, named, answered, time.monotonic() - back))
        texts = macs.incident_texts(since)
        assert has(texts, [*done, *case.get("after", [])]), texts
        if case.get("quiet"):
            assert macs.asked(since) == []
        macs.wait_for_answers()


def class_of(name: str) -> str:
    """The class of a case: ``C4`` of ``C4-late``."""
    return name.partition("-")[0]


def filled(case: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """With the names of machines in place."""

    def put(text: Any) -> Any:
        if isinstance(text, list):
            return [put(each) for each in text]
        return NAMES.sub(lambda name: names[name[0]], text) if isinstance(text, str) else text

    return {key: put(text) for key, text in case.items()}


def is_named(fault: str, case: dict[str, Any], macs: Macs, since: datetime) -> bool:
    """Whether the doctor has it among its findings, with the steps; or among what healed since without a person."""
    if "event" in case:
        texts = [event["message"] for event in macs.made.events() if is_since(event, since)]
        return any(re.search(case["event"], text) for text in texts)
    code, body = macs.doctor()
    found = [each for each in body["findings"] if each["class"] == fault and case["finding"] in each["seen"]]
    if found:
        assert code == 1
        assert any(case.get("todo", "the controller is working on it") in each["steps"] for each in found), (
            found
        )
        return True
    healed = (
        each
        for each in body["healed"]
        if each["class"] == fault and datetime.fromisoformat(each["closedAt"]) > since
    )
    return "todo" not in case and any(case["finding"] in each["summary"] for each in healed)


def is_since(event: dict[str, Any], since: datetime) -> bool:
    """Whether an event is of that time or later."""
    return datetime.fromisoformat(event["time"]) >= since


def has(texts: list[str], patterns: list[str]) -> bool:
    """Whether all of it is told, in this order."""
    left = iter(texts)
    return all(any(re.search(pattern, text) for text in left) for pattern in patterns)
