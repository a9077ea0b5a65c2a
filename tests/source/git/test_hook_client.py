"""The connection of a hook to the controller, which stays open for as long as the pusher waits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.source.git import hook_client


class Connection(hook_client.Controller):
    """Has had so many requests. An answer to the one before arrives late, and then nothing arrives any more."""

    def __init__(self, before: int) -> None:
        self.number = before
        self.frames: list[str] = []

    def send(self, frame: Mapping[str, Any]) -> None:
        call = frame["call"]
        self.frames = [json.dumps({"reply": each, "body": {"call": each}}) for each in (call - 1, call)]

    def receive(self, deadline: float) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.frames.pop(0))
        return found


@pytest.mark.parametrize("before", [0, 256, 100_000])
def test_a_request_gets_its_own_answer_however_many_came_before(before: int) -> None:
    connection = Connection(before)
    for number in (before + 1, before + 2):
        assert connection.ask({"type": "get"}, 1.0) == {"call": number}
