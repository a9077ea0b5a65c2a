"""What the gateway's own file says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.inventory import observe_gateway
from reconciler.state import GatewayObservation


def gone() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_gateway_that_listens_is_one_whose_process_lives(tmp_path: Path) -> None:
    file = tmp_path / "gateway.json"
    assert observe_gateway(file) is None
    file.write_text(json.dumps({"pid": os.getpid(), "endpoint": "http://x/v1"}))
    assert observe_gateway(file) == GatewayObservation(os.getpid(), "http://x/v1")
    file.write_text(json.dumps({"pid": gone(), "endpoint": "http://x/v1"}))
    assert observe_gateway(file) is None


def test_one_that_cannot_listen_has_left_its_reason_behind(tmp_path: Path) -> None:
    file = tmp_path / "gateway.json"
    pid = gone()
    file.write_text(json.dumps({"pid": pid, "endpoint": None, "problem": "taken"}))
    assert observe_gateway(file) == GatewayObservation(pid, None, "taken")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x", "endpoint": null}'])
def test_a_file_that_says_nothing_is_no_gateway(tmp_path: Path, text: str) -> None:
    (tmp_path / "gateway.json").write_text(text)
    assert observe_gateway(tmp_path / "gateway.json") is None
