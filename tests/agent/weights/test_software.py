"""What is said of weights before it is known what the node's runtime is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.weights.examination import Software


class Runtime:
    """A runtime that notes whether it was told to get ready, and examines nothing."""

    def __init__(self) -> None:
        self.ready = False

    def prepare(self) -> None:
        self.ready = True

    def prepared(self) -> None:
        self.ready = False

    def examine(self, folder: str, seconds: float, on_answer: Callable[[Mapping[str, Any]], None]) -> None:
        raise AssertionError("whether it can examine anything is not known")


@pytest.mark.parametrize(
    ("files", "examinable"),
    [(("config.json", "model.safetensors"), True), (("config.json",), False), ((), False)],
    ids=["complete", "incomplete", "absent"],
)
def test_a_runtime_gets_ready_for_weights_that_it_may_have_to_examine(
    tmp_path: Path, files: tuple[str, ...], examinable: bool
) -> None:
    for name in files:
        (tmp_path / "tiny").mkdir(exist_ok=True)
        (tmp_path / "tiny" / name).write_bytes(CONTENT[name])
    runtime = Runtime()
    software = Software(sys.executable, tmp_path, runtime, lambda: None)
    assert software.model("tiny").examining == runtime.ready == examinable
    software._know({})
    assert not runtime.ready, "there is nothing to wait for once it is known what the runtime has"


CONTENT = {"config.json": b"{}", "model.safetensors": (2).to_bytes(8, "little") + b"{}"}
