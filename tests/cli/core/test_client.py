"""A connection to the controller that stays open for many requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.cli.core.client import Client
from reconciler.wire.admin import Get
from tests.cli.conftest import Controller


@pytest.mark.parametrize("before", [0, 255, 256, 100_000])
def test_a_request_gets_its_answer_however_many_came_before(
    home: Path, controller: Controller, before: int
) -> None:
    with Client(home / "controller.sock") as client:
        client._number = before
        for _ in range(2):
            assert len(client.ask(Get("Node"))["items"]) == 2
