"""Two replicas under fifty streams, while every kind of change is committed: no client notices, and a change that cannot
start is taken back by itself."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
import pytest

from .answers import Answer, stream
from .cluster import ROOT, Cluster, cluster, node

pytestmark = pytest.mark.e2e

QUESTIONS = ("What is a node?", "What is an epoch?", "Who are you?", "What is a rank?", "Hello")
SECONDS_MAX = 180.0
POLL_SECONDS = 0.02
CHANGES: dict[str, dict[str, Any]] = {
    "context and batch": {"serving": {"context": 1024, "maxBatch": 32}},
    "transport": {"serving": {"context": 1024, "maxBatch": 32}, "transport": ["ring-lan"]},
    "weights": {"serving": {"context": 1024, "maxBatch": 32}, "weights": "same"},
    "model": {"serving": {"context": 1024, "maxBatch": 32}, "weights": "same", "model": "second"},
}
"""Each change, and the spec after it."""
IN_PLACE = ("transport",)
"""Groups of one rank have no transport."""


def manifests(
    serving: dict[str, int] | None = None,
    transport: list[str] | None = None,
    weights: str = "tiny",
    model: str = "tiny",
    strategy: dict[str, int] | None = None,
) -> str:
    """Two replicas of one rank each."""
    spec: dict[str, Any] = {
        "model": model,
        "replicas": 2,
        "serving": serving or {"context": 2048, "maxBatch": 16},
        "strategy": strategy or {},
    }
    if transport:
        spec["transport"] = transport
    bodies: list[tuple[str, str, dict[str, Any]]] = [
        ("Model", name, {"source": {"path": path}}) for name, path in models(weights).items()
    ]
    bodies.append(("ModelDeployment", "tiny", spec))
    head = "apiVersion: reconciler/v1alpha1\n"
    texts = [
        f"{head}kind: {kind}\nmetadata: {{name: {name}}}\nspec: {json.dumps(body)}\n"
        for kind, name, body in bodies
    ]
    return "---\n".join(
        [*texts, node("node-a"), node("node-b"), (ROOT / "manifests/gateway.yaml").read_text()]
    )


def models(weights: str) -> dict[str, str]:
    """The path of each Model."""
    return {"tiny": weights, "second": "second", "odd": "odd"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The same weights under several paths, and some that no rank can compute with."""
    for name in ("tiny", "same", "second", "odd"):
        shutil.copytree(ROOT / "examples" / "models" / "tiny", tmp_path / "models" / name)
    config = tmp_path / "models" / "odd" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "rope_theta": "10000"}))
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Iterator[Cluster]:
    with cluster() as made:
        (folder / "m.yaml").write_text(manifests())
        made.start("-f", str(folder / "m.yaml"), "--models", str(folder / "models"), "--any-port")
        made.wait_settled()
        yield made


@dataclass
class Clients:
    """So many streams at any time, each followed by the next."""

    made: Cluster
    streams: int
    answers: list[tuple[str, Answer]] = field(default_factory=list)
    over: bool = False
    least: int = 2
    """The fewest groups that the gateway was connected to."""

    async def run(self, changes: Any) -> None:
        """Serve clients while something is done in another thread."""
        watching = asyncio.create_task(self._watch())
        async with openai.AsyncOpenAI(
            base_url=self.made.endpoint(), api_key="none", timeout=SECONDS_MAX, max_retries=0
        ) as sdk:
            streams = [asyncio.create_task(self._ask(sdk, number)) for number in range(self.streams)]
            try:
                await asyncio.to_thread(changes, self)
            finally:
                self.over = True
            await asyncio.gather(*streams, watching)

    async def _ask(self, sdk: openai.AsyncOpenAI, number: int) -> None:
        question = QUESTIONS[number % len(QUESTIONS)]
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": 60,
            "extra_body": {"min_tokens": 60},
        }
        while not self.over:
            self.answers.append((question, await stream(sdk, body)))

    async def _watch(self) -> None:
        while not self.over:
            (route,) = json.loads((self.made.home / "routes.json").read_text())["routes"]
            self.least = min(self.least, len(route["backends"]))
            await asyncio.sleep(POLL_SECONDS)

    def until_answered(self) -> None:
        """Wait until as many answers have ended as there are streams."""
        before, begun = len(self.answers), time.monotonic()
        while len(self.answers) - before < self.streams and time.monotonic() - begun < SECONDS_MAX:
            time.sleep(0.1)

    def check(self) -> None:
        """Check that each answer is whole, and says what others say to the same question."""
        assert [answer.error for _, answer in self.answers if answer.error] == []
        assert len(self.answers) >= self.streams
        said = {question: {str(a.said) for q, a in self.answers if q == question} for question in QUESTIONS}
        assert {question: len(texts) for question, texts in said.items()} == dict.fromkeys(QUESTIONS, 1)


def apply(made: Cluster, folder: Path, **spec: Any) -> None:
    (folder / "m.yaml").write_text(manifests(**spec))
    made.run("apply", "-f", str(folder / "m.yaml"))


def pids(made: Cluster) -> list[int]:
    return sorted(rank["pid"] for rank in made.ranks() if rank["phase"] == "ready")


NEVER_LESS = {"maxSurge": 1, "maxUnavailable": 0}
FIFTY = (pytest.mark.nightly, pytest.mark.timeout(300))


@pytest.mark.parametrize(
    ("streams", "kinds", "strategy", "least"),
    [
        (10, ["context and batch"], NEVER_LESS, 2),
        pytest.param(50, list(CHANGES), NEVER_LESS, 2, marks=FIFTY),
        pytest.param(50, list(CHANGES), {}, 1, marks=FIFTY),
    ],
    ids=["some", "fifty, and an extra one", "fifty"],
)
def test_no_stream_notices_any_kind_of_change(
    served: Cluster, folder: Path, streams: int, kinds: list[str], strategy: dict[str, int], least: int
) -> None:
    clients = Clients(served, streams)

    def changes(clients: Clients) -> None:
        clients.until_answered()
        for what, spec in ((kind, CHANGES[kind]) for kind in kinds):
            before, begun = pids(served), time.monotonic()
            apply(served, folder, **spec, strategy=strategy)
            served.run("rollout", "status", "deployment/tiny")
            served.wait_settled()
            print(f"{what}: {time.monotonic() - begun:.1f} s, at least {clients.least} of 2 served")
            kept = set(before) & set(pids(served))
            assert kept == (set(before) if what in IN_PLACE else set())
        apply(served, folder, **{**CHANGES[kinds[-1]], "model": "odd"}, strategy=strategy)
        served.wait("the change to be taken back", lambda: stalled(served) == "RevisionSetBack")
        served.wait("both to be served", lambda: served.deployments()["tiny"]["readyReplicas"] == 2)
        clients.until_answered()

    asyncio.run(clients.run(changes))
    clients.check()
    print(
        f"{len(clients.answers)} streams, {served.metrics()['reconciler_requests_continued_total']:.0f} continued"
    )
    assert clients.least >= least
    told = " ".join(served.run("describe", "deployment", "tiny").stdout.split())
    assert "→ odd, weights" in told
    changed = [event["message"] for event in served.events() if event["reason"] == "DeploymentChanged"]
    assert changed[0].startswith(
        "restart with the same weights: serving.context 2048 → 1024, serving.maxBatch"
    )
    assert ("in place: transport" in changed) is ("transport" in kinds)
    assert "the spec before is served instead" in told
    assert "RevisionSetBack" in {event["reason"] for event in served.events()}
    assert "serve tiny as before again" in served.run("incidents", "-o", "yaml").stdout


def stalled(made: Cluster) -> str:
    conditions = made.deployments()["tiny"]["conditions"]
    return next((c["reason"] for c in conditions if c["type"] == "Stalled" and c["status"] == "True"), "")
