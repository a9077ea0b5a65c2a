"""Weights that come from a hub: the real client, a stand-in for the hub, real ranks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.fetcher.hub import COMMIT, REPO, Fault, Hub, folder, serving

from .cluster import ROOT, Cluster, cluster, deployment, node

pytestmark = pytest.mark.e2e

TOKEN = "hf_s3cr3t"


def model(revision: str = COMMIT) -> str:
    return f"""apiVersion: reconciler/v1alpha1
kind: Model
metadata:
  name: tiny
spec:
  source:
    huggingface:
      repo: {REPO}
      revision: {revision}
      tokenRef:
        env: A_TOKEN
"""


GATEWAY = """apiVersion: reconciler/v1alpha1
kind: Gateway
metadata:
  name: main
spec:
  listen: 127.0.0.1:8400
  auth:
    mode: none
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(folder(ROOT / "examples" / "models" / "tiny")) as made:
        made.token = TOKEN
        yield made


def manifests(path: Path, *texts: str) -> str:
    path.mkdir(exist_ok=True)
    (path / "all.yaml").write_text("---\n".join(texts))
    return str(path)


def answer_of(made: Cluster) -> Any:
    with openai.OpenAI(base_url=made.endpoint(), api_key="none", timeout=60, max_retries=0) as sdk:
        question: Any = {"role": "user", "content": "What is reconciler?"}
        answer = sdk.chat.completions.create(model="tiny", messages=[question], temperature=0)
    return answer.choices[0].message.content


def test_three_nodes_fetch_once_and_serve_and_the_token_is_nowhere(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("A_TOKEN", TOKEN)
    nodes = [node(name) for name in ("node-a", "node-b", "node-c")]
    with cluster() as made:
        made.start(
            "-f", manifests(tmp_path / "m", *nodes, model(), deployment("tiny", 2), GATEWAY), "--any-port"
        )
        made.wait_settled()
        assert hub.requests["model.safetensors"] == 1
        assert hub.tokens == {TOKEN}
        (model_object,) = made.json("get", "models")["items"]
        assert {c["type"]: c["reason"] for c in model_object["status"]["conditions"]}[
            "Ready"
        ] == "WeightsVerified"
        assert "reconciler" in answer_of(made).lower()
        _verified_again(made, hub)
        kept = [path for path in (*made.files(), made.log) if path.is_file()]
        assert len(kept) > 20
        assert [path for path in kept if TOKEN.encode() in content(path)] == []


def content(path: Path) -> bytes:
    """Of a file that may have been one of a moment."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def _verified_again(made: Cluster, hub: Hub) -> None:
    """A damaged file is found on demand and fetched again, alone, while its model serves on."""
    before = made.ranks()
    (rotten,) = made.home.glob(f"models/hub/*/{COMMIT}/tokenizer.json")
    status = rotten.stat()
    rotten.write_bytes(b"[" + rotten.read_bytes()[1:])
    os.utime(rotten, ns=(status.st_atime_ns, status.st_mtime_ns))
    hub.requests.clear()
    output = made.run("model", "verify", "tiny").stdout
    assert "tokenizer.json" in next(line for line in output.splitlines() if "fetched again" in line)
    assert output.count("the same folder as node-") == 2
    assert hub.requests == {"tokenizer.json": 1}
    assert [rank["pid"] for rank in made.ranks()] == [rank["pid"] for rank in before]
    assert made.run("model", "verify", "tiny").stdout.count("verified") == 6


def test_new_weights_take_over_when_they_are_verified_and_bad_ones_give_way(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`model update`: the old group serves meanwhile; what does not come up is given up by itself."""
    good, bad = "900d" + "2" * 36, "bad0" + "3" * 36
    files = folder(ROOT / "examples" / "models" / "tiny")
    hub.add(files, commit=good)
    hub.add(files, commit=bad)
    slow = hub.faults["model.safetensors"] = Fault()
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("A_TOKEN", TOKEN)
    with cluster() as made:
        made.start(
            "-f",
            manifests(tmp_path / "m", node("node-a"), model(), deployment("tiny", 1), GATEWAY),
            "--any-port",
        )
        made.wait_settled()
        slow.bytes_per_second = 100_000  # a minute, for whoever looks
        made.run("model", "update", "tiny", "--revision", good)
        made.wait(
            "the new weights to be fetched", lambda: "Fetching" in made.ask("describe", "model", "tiny")
        )
        assert [rank["epoch"] for rank in made.ranks()] == [1]
        assert "reconciler" in answer_of(made).lower()
        slow.bytes_per_second = 0.0
        made.wait("the new group", lambda: [rank["epoch"] for rank in made.ranks()] == [2] and made.settled())
        proven = [event["message"] for event in made.events() if event["reason"] == "GroupProven"]
        assert (
            "weights moved from org/tiny at c0ffee1111 to org/tiny at 900d222222, not served for"
            in proven[-1]
        )
        made.run("model", "update", "tiny", "--revision", bad)
        made.wait("the old weights again", lambda: _given_up(made))
        made.wait("it to be served", lambda: made.deployments()["tiny"]["readyReplicas"] == 1)
        assert "reconciler" in answer_of(made).lower()
        text = made.run("describe", "model", "tiny").stdout
        assert "did not come up with weights org/tiny at 900d222222 → org/tiny at bad0333333" in " ".join(
            text.split()
        )


def _given_up(made: Cluster) -> bool:
    """Whether the new weights were given up; until then each of their ranks crashes before it has served."""
    for rank in made.ranks():
        if rank["epoch"] > 2 and rank["pid"]:
            with suppress(ProcessLookupError):
                os.kill(rank["pid"], signal.SIGKILL)
    return "RevisionSetBack" in made.run("events").stdout
