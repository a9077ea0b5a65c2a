"""`model`: weights verified on demand, and moved to another commit."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.wire.admin import Verify
from tests.cli.conftest import Cli, Controller

pytestmark = pytest.mark.processes

OLD, NEW = "a" * 40, "b" * 40
FROM_HUB = f"""apiVersion: reconciler/v1alpha1
kind: Model
metadata: {{name: llama}}
spec:
  source:
    huggingface:
      repo: org/llama   # the one for testing
      revision: {OLD}
"""
FROM_PATH = (
    "apiVersion: reconciler/v1alpha1\nkind: Model\nmetadata: {name: tiny}\nspec: {source: {path: tiny}}\n"
)


@pytest.fixture
def written(cli: Cli) -> Cli:
    assert cli("apply", "-f", "-", stdin=f"{FROM_HUB}---\n{FROM_PATH}").code == 0
    return cli


def test_an_update_is_a_commit_of_one_field(written: Cli) -> None:
    result = written("model", "update", "llama", "--revision", NEW)
    assert (result.code, result.out) == (0, "model.reconciler/llama updated\n")
    shown = written("model", "update", "llama", "--revision", NEW, "--dry-run")
    assert shown.out == "model.reconciler/llama unchanged (dry run)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("llama", "--revision", "main"),
            "expected a commit of 40 hexadecimal digits, got 'main'; find the commit of a branch or tag with:"
            " git ls-remote https://huggingface.co/org/llama main",
        ),
        (("tiny", "--revision", NEW), "model/tiny has its weights at a path"),
        (("lama", "--revision", NEW), '"lama" not found; did you mean "llama"?'),
    ],
)
def test_what_cannot_be_updated_is_reported(written: Cli, arguments: tuple[str, ...], message: str) -> None:
    result = written("model", "update", *arguments)
    assert result.code == 1
    assert message in result.err


def verified(controller: Controller, *nodes: dict[str, Any]) -> None:
    def answer(message: Verify) -> dict[str, Any]:
        return {"run": "verify/1", **({"done": True, "nodes": list(nodes)} if message.run else {})}

    controller.answers["verify"] = answer


def test_a_verification_is_a_table_by_node_and_file(cli: Cli, controller: Controller) -> None:
    files = [
        {"name": "config.json", "size": 500, "state": "verified"},
        {"name": "model.safetensors", "size": 5 * 2**30, "state": "fetched again"},
    ]
    done = {"phase": "done", "doneBytes": 0, "totalBytes": 0, "problem": "", "text": "", "files": files}
    verified(controller, {"node": "node-a", **done}, {"node": "node-b", "beside": "node-a"})
    result = cli("model", "verify", "llama")
    assert result.code == 0
    assert result.out.splitlines() == [
        "NODE     FILE                SIZE     STATE",
        "node-a   config.json         500B     verified",
        "node-a   model.safetensors   5.0GiB   fetched again",
        "node-b   -                   -        the same folder as node-a",
    ]


def test_weights_that_are_incomplete_in_the_end_are_an_error(cli: Cli, controller: Controller) -> None:
    files = [{"name": "config.json", "size": 500, "state": "damaged"}]
    failed = {"phase": "failed", "doneBytes": 0, "totalBytes": 0, "problem": "HubUnreachable",
              "text": "no connection to huggingface.co", "files": files}  # fmt: skip
    verified(controller, {"node": "node-a", **failed})
    result = cli("model", "verify", "llama")
    assert result.code == 1
    assert "damaged" in result.out
    assert "node-a: no connection to huggingface.co (HubUnreachable)" in result.err
