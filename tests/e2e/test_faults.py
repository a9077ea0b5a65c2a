"""Wishes that cannot be had, beside a deployment that serves: each is told, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.shared_cluster.test_healing import Answer, stream
from tests.ports import free_port

from .cluster import ROOT, Cluster, cluster

pytestmark = pytest.mark.e2e

TINY = ROOT / "examples" / "models" / "tiny"
INDEX = "model.safetensors.index.json"
SENTENCE_MAX = 200
PAUSE_SECONDS = 0.3
"""Between two answers, so that other tests have something of the machine."""
GATEWAY = """apiVersion: reconciler/v1alpha1
kind: Gateway
metadata: {{name: main}}
spec: {{listen: "127.0.0.1:{port}", auth: {{mode: none}}}}
"""
NODE = """---
apiVersion: reconciler/v1alpha1
kind: Node
metadata: {{name: {name}, labels: {{pool: {pool}}}}}
spec: {{local: {{}}, unschedulable: {closed}}}
"""


def model(name: str, path: str) -> str:
    return f"""---
apiVersion: reconciler/v1alpha1
kind: Model
metadata: {{name: {name}}}
spec: {{source: {{path: "{path}"}}}}
"""


def deployment(name: str, weights: str, **spec: Any) -> str:
    body = json.dumps({"model": weights, "placement": {"nodeSelector": {"pool": "open"}}, **spec})
    return f"""---
apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata: {{name: {name}}}
spec: {body}
"""


def split(strategy: str, nodes: int) -> dict[str, Any]:
    return {"parallelism": {"strategy": strategy, "nodes": nodes}}


# --- weights -----------------------------------------------------------------------------------------


def config(folder: Path, **fields: Any) -> None:
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, **fields}))


def cut(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 1_000_000)


def index(*files: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / INDEX).write_text(json.dumps({"weight_map": {f"w{n}": f for n, f in enumerate(files)}}))

    return write


def replaced(name: str, content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return write


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def own_code(folder: Path) -> None:
    (folder / "net.py").write_text(f"open({str(folder / 'was-run')!r}, 'w')\n")
    config(folder, model_file="net.py")


DAMAGED: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "cut-short": (cut, "WeightsUnusable", "model.safetensors is cut short: 1000000 of 6697488 bytes"),
    "lost-shard": (
        index("model.safetensors", "model-2.safetensors"),
        "WeightsUnusable",
        "model-2.safetensors is missing",
    ),
    "outside": (
        index("model.safetensors", "../tiny/model.safetensors"),
        "WeightsUnusable",
        "names '../tiny/model.safetensors'",
    ),
    "empty-file": (replaced("model.safetensors", b""), "WeightsUnusable", "(it is empty)"),
    "no-config": (without("config.json"), "WeightsUnusable", "config.json is missing"),
    "no-json": (
        replaced("config.json", b"{model_type:"),
        "WeightsUnusable",
        "config.json: Expecting property",
    ),
    "no-object": (replaced("config.json", b"[]"), "WeightsUnusable", "config.json: expected a JSON object"),
    "huge-config": (replaced("config.json", b" " * 2**21), "WeightsUnusable", "more than 1048576 bytes"),
    "no-tokenizer": (without("tokenizer.json"), "WeightsUnusable", "its tokenizer cannot be loaded"),
    "unknown-kind": (
        lambda folder: config(folder, model_type="perceptron"),
        "WeightsUnusable",
        "does not know the architecture 'perceptron'",
    ),
    "own-code": (own_code, "RemoteCodeNotTrusted", "set spec.trustRemoteCode: true"),
}

IMPOSSIBLE: dict[str, tuple[dict[str, Any], str, str]] = {
    "no-model": ({"model": "llama"}, "ModelNotFound", 'model "llama" does not exist'),
    "no-weights": ({"model": "absent"}, "WeightsMissing", "put them there or correct spec.source.path"),
    "no-labels": (
        {"placement": {"nodeSelector": {"pool": "x"}}},
        "NotEnoughNodes",
        "none has the labels pool=x",
    ),
    "cordoned": (
        {"placement": {"nodeSelector": {"pool": "closed"}}},
        "NotEnoughNodes",
        "undo with: reconciler uncordon node-d",
    ),
    "many-nodes": (split("tensor", 9), "NotEnoughNodes", "lower spec.parallelism.nodes to 3"),
    "three-nodes": (
        split("tensor", 3),
        "NotDivisible",
        "its 8 heads do not divide by 3; works: nodes: 1 or 2",
    ),
    "as-pipeline": (split("pipeline", 2), "StrategyNotSupported", "or strategy: tensor with 2 nodes"),
    "long-context": (
        {"serving": {"context": 16_777_216}},
        "ContextTooLong",
        "set ropeScaling: {type: yarn, factor: 4096, originalContext: 4096}",
    ),
    "large-cache": (
        {"serving": {"prefixCache": "100TiB"}},
        "NotEnoughMemory",
        "fits: prefixCache: 0B",
    ),
}

EXPECTED = {name: (reason, text) for name, (_, reason, text) in {**DAMAGED, **IMPOSSIBLE}.items()}


def add_models(folder: Path) -> None:
    """Damaged copies of the tiny model, and one that is all links and has no chat template."""
    for name, (damage, _, _) in DAMAGED.items():
        shutil.copytree(TINY, folder / name)
        damage(folder / name)
    (folder / "linked").mkdir()
    for file in TINY.iterdir():
        if file.name != "chat_template.jinja":
            (folder / "linked" / file.name).symlink_to(file)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, a fourth that is cordoned, and the tiny model served on two of them."""
    folder = tmp_path_factory.mktemp("faults")
    nodes = [("node-a", "open", "false"), ("node-b", "open", "false"), ("node-c", "open", "false")]
    text = GATEWAY.format(port=free_port())
    for name, pool, closed in [*nodes, ("node-d", "closed", "true")]:
        text += NODE.format(name=name, pool=pool, closed=closed)
    (folder / "base.yaml").write_text(
        text + model("tiny", "tiny") + deployment("tiny", "tiny", **split("auto", 2))
    )
    with cluster() as made:
        made.start("-f", str(folder / "base.yaml"), "--models", str(TINY.parent))
        made.wait_settled()
        add_models(made.home / "models")
        yield made


@contextmanager
def clients(made: Cluster) -> Iterator[list[Answer]]:
    """Somebody who streams one answer after the other; all of them come in whole, from the same ranks."""
    before, answers, over = tiny_pids(made), list[Answer](), threading.Event()
    endpoint = made.endpoint()

    async def ask() -> None:
        async with openai.AsyncOpenAI(base_url=endpoint, api_key="none", timeout=60, max_retries=0) as sdk:
            while not over.is_set():
                answers.append(await stream(sdk, asyncio.Event()))
                await asyncio.sleep(PAUSE_SECONDS)

    thread = threading.Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join(60)
    assert answers
    assert {(answer.error, answer.finish, answer.text) for answer in answers} == {
        ("", "stop", answers[0].text)
    }
    assert tiny_pids(made) == before


def tiny_pids(made: Cluster) -> list[int]:
    return sorted(row["pid"] for row in made.ranks() if row["deployment"] == "tiny")


def condition(made: Cluster, name: str, kind: str) -> dict[str, Any]:
    return next(dict(c) for c in made.deployments()[name]["conditions"] if c["type"] == kind)


def apply(made: Cluster, folder: Path, text: str) -> str:
    (folder / "wish.yaml").write_text(text)
    return made.run("apply", "-f", str(folder / "wish.yaml")).stderr


def test_what_cannot_be_served_is_reported_before_any_rank_starts_while_others_are_served(
    serving: Cluster, tmp_path: Path
) -> None:
    text = model("absent", "absent")
    text += "".join(model(name, name) + deployment(name, name) for name in DAMAGED)
    text += "".join(
        deployment(name, **{"weights": "tiny", **spec}) for name, (spec, _, _) in IMPOSSIBLE.items()
    )
    with clients(serving):
        warnings = apply(serving, tmp_path, text)
        assert {line.split("/")[1].split(":")[0] for line in warnings.splitlines() if "warning" in line} == {
            "no-model", "no-labels", "cordoned", "many-nodes"
        }  # fmt: skip

        found: dict[str, dict[str, Any]] = {}

        def all_refused() -> bool:
            for name, status in serving.deployments().items():
                found[name] = next(dict(c) for c in status["conditions"] if c["type"] == "Stalled")
            return all(found[name]["reason"] == reason for name, (reason, _) in EXPECTED.items())

        serving.wait("every refusal", all_refused)
        messages = {name: str(found[name]["message"]) for name in EXPECTED}
        assert {name: message for name, message in messages.items() if EXPECTED[name][1] not in message} == {}
        assert {n: m for n, m in messages.items() if len(m) > SENTENCE_MAX + len(str(tmp_path))} == {}
        page = serving.run("describe", "deployment", "cut-short").stdout
        assert page.count(messages["cut-short"]) >= 3  # conditions, plan and events
        assert {row["deployment"] for row in serving.ranks()} == {"tiny"}
        assert not list(serving.home.rglob("was-run"))
        held = serving.run("delete", "-f", str(tmp_path / "wish.yaml"), check=False).stderr
        (command,) = re.findall("reconciler (approve [0-9a-f]+)", held)  # it removes much at once
        serving.run(*command.split())
        serving.wait_settled()


def test_links_and_no_chat_template_are_no_obstacle(serving: Cluster, tmp_path: Path) -> None:
    with clients(serving):
        apply(serving, tmp_path, model("linked", "linked") + deployment("linked", "linked"))
        serving.wait_settled()
        with openai.OpenAI(base_url=serving.endpoint(), api_key="none", timeout=60, max_retries=0) as sdk:
            with pytest.raises(openai.BadRequestError, match="has no chat template: use /v1/completions"):
                sdk.chat.completions.create(model="linked", messages=[{"role": "user", "content": "Hello"}])
            assert sdk.completions.create(model="linked", prompt="Hello", max_tokens=2).choices
        serving.run("delete", "-f", str(tmp_path / "wish.yaml"))
        serving.wait_settled()


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "more nodes than there are": (split("auto", 9), "NotEnoughNodes"),
    "a pipeline": (split("pipeline", 2), "StrategyNotSupported"),
}


def test_an_impossible_change_of_what_is_served_changes_nothing_and_neither_does_undoing_it(
    serving: Cluster, tmp_path: Path
) -> None:
    with clients(serving):
        for spec, reason in CHANGES.values():
            apply(serving, tmp_path, deployment("tiny", **{"weights": "tiny", **spec}))
            serving.wait(reason, lambda: condition(serving, "tiny", "Stalled")["reason"] == reason)  # noqa: B023
            assert condition(serving, "tiny", "Ready")["status"] == "True"
        serving.run("delete", "model", "tiny", "--no-wait")
        apply(serving, tmp_path, deployment("tiny", "tiny", **split("auto", 2)))
        serving.wait(
            "its model gone", lambda: condition(serving, "tiny", "Stalled")["reason"] == "ModelNotFound"
        )
        assert condition(serving, "tiny", "Ready")["status"] == "True"
        apply(serving, tmp_path, model("tiny", "tiny"))
        serving.wait_settled()
        (group,) = serving.deployments()["tiny"]["groups"]
        assert group["strategy"] == "tensor (auto: the model can be split by tensor)"


@pytest.mark.nightly
def test_a_rank_that_keeps_dying_costs_more_and_more_time(serving: Cluster, tmp_path: Path) -> None:
    with clients(serving):
        apply(serving, tmp_path, deployment("second", "tiny", **split("tensor", 2)))
        serving.wait_settled()

        def backing_off() -> bool:
            for row in serving.ranks():
                if row["deployment"] == "second" and row["pid"]:
                    with suppress(ProcessLookupError):
                        os.kill(row["pid"], signal.SIGKILL)
            waits = [w for w in serving.plan()["waiting"] if w["object"] == "modeldeployment/second"]
            return any(w["reason"] == "BackOff" and w["until"] for w in waits)

        serving.wait("a back-off", backing_off)
        page = ""

        def shown() -> bool:
            nonlocal page
            page = serving.run("describe", "deployment", "second").stdout
            return backing_off() and "was killed by signal 9 (until 20" in page

        serving.wait("the time of the next attempt", shown)
        serving.run("delete", "deployment", "second")
        serving.wait_settled()


def test_a_gateway_whose_new_address_is_taken_stays_and_moves_when_it_gets_free(
    serving: Cluster, tmp_path: Path
) -> None:
    before = serving.endpoint()

    def stalled() -> dict[str, Any]:
        conditions = serving.json("get", "gateways")["items"][0]["status"]["conditions"]
        return next(dict(c) for c in conditions if c["type"] == "Stalled")

    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = int(taken.getsockname()[1])
        with clients(serving):
            apply(serving, tmp_path, GATEWAY.format(port=port))
            serving.wait("the refusal", lambda: stalled()["reason"] == "CannotListen")
            assert f"127.0.0.1:{port} is taken by another process" in stalled()["message"]
            assert serving.endpoint() == before
    serving.wait("the new address", lambda: serving.endpoint() == f"http://127.0.0.1:{port}/v1")
    serving.wait_settled()
