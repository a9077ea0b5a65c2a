"""What the gateway's own file says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.gateway.state_file import read_prompts, write_prompts
from reconciler.inventory import observe_gateway
from reconciler.state import GatewayObservation
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt


def gone() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_gateway_that_listens_is_one_whose_process_lives(tmp_path: Path) -> None:
    file = tmp_path / "gateway.json"
    assert observe_gateway(file, tmp_path / "prompts.json", tmp_path / "usage.json") is None
    file.write_text(json.dumps({"pid": os.getpid(), "endpoint": "http://x/v1"}))
    assert observe_gateway(file, tmp_path / "prompts.json", tmp_path / "usage.json") == GatewayObservation(
        os.getpid(), "http://x/v1"
    )
    file.write_text(json.dumps({"pid": gone(), "endpoint": "http://x/v1"}))
    assert observe_gateway(file, tmp_path / "prompts.json", tmp_path / "usage.json") is None


def test_what_it_lacks_and_which_keys_it_has_is_told(tmp_path: Path) -> None:
    file = tmp_path / "gateway.json"
    file.write_text(
        json.dumps({"pid": os.getpid(), "endpoint": "http://x/v1", "shortage": "few", "keys": "a1"})
    )
    assert observe_gateway(file, tmp_path / "prompts.json", tmp_path / "usage.json") == GatewayObservation(
        os.getpid(), "http://x/v1", shortage="few", keys="a1"
    )


def test_one_that_cannot_listen_has_left_its_reason_behind(tmp_path: Path) -> None:
    file = tmp_path / "gateway.json"
    pid = gone()
    file.write_text(json.dumps({"pid": pid, "endpoint": None, "problem": "taken"}))
    assert observe_gateway(file, tmp_path / "prompts.json", tmp_path / "usage.json") == GatewayObservation(
        pid, None, "taken"
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x", "endpoint": null}'])
def test_a_file_that_says_nothing_is_no_gateway(tmp_path: Path, text: str) -> None:
    (tmp_path / "gateway.json").write_text(text)
    assert (
        observe_gateway(tmp_path / "gateway.json", tmp_path / "prompts.json", tmp_path / "usage.json") is None
    )


@pytest.mark.parametrize("damage", [None, "", "[]", '{"version": 1, "prompts": [{}]}'])
def test_the_prompts_that_it_refuses_are_in_a_file_of_their_own(tmp_path: Path, damage: str | None) -> None:
    status, prompts = tmp_path / "gateway.json", tmp_path / "prompts.json"
    status.write_text(json.dumps({"pid": os.getpid(), "endpoint": "http://x/v1"}))
    refused = QuarantinedPrompt("tiny", "0a", "req-1", "1 message", (EndedGroup(0, 3),), 5.0, 3605.0)
    write_prompts(prompts, (refused,))
    assert prompts.stat().st_mode & 0o777 == 0o600
    if damage is not None:
        prompts.write_text(damage)
    seen = observe_gateway(status, prompts, tmp_path / "usage.json")
    assert seen is not None
    assert seen.quarantined == ((refused,) if damage is None else ())
    assert read_prompts(prompts) == seen.quarantined


def test_what_keys_have_used_is_read_again_when_it_changes(tmp_path: Path) -> None:
    status, usage = tmp_path / "gateway.json", tmp_path / "usage.json"
    status.write_text(json.dumps({"pid": os.getpid(), "endpoint": "http://x/v1"}))
    for text, tokens in (
        ('{"version": 1, "keys": [{"name": "webui", "day": 20000, "tokens": 5}]}', [5]),
        ('{"version": 1, "keys": [{"name": "webui", "day": 20000, "tokens": 17}]}', [17]),
        ("{}", []),
    ):
        usage.write_text(text)
        seen = observe_gateway(status, tmp_path / "prompts.json", usage)
        assert seen is not None
        assert [each.tokens for each in seen.usage] == tokens
