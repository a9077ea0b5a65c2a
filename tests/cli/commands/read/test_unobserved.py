"""A list of what runs says which nodes it cannot have asked, so that nobody takes it for everything."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.wire.admin import Get
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller

NOTE = "note: not observed yet: node-b; what runs there is not listed, see: reconciler get nodes"


@pytest.mark.parametrize(
    ("arguments", "noted"),
    [
        (("get", "ranks"), True),
        (("get", "ranks", "-o", "json"), True),
        (("get", "rank", "tiny.0.3.0"), True),
        (("top",), True),
        (("top", "ranks", "-o", "json"), True),
        (("logs", "tiny"), True),
        (("get", "models"), False),
    ],
)
def test_a_list_of_what_runs_names_the_nodes_that_were_not_observed(
    cli: Cli, controller: Controller, arguments: tuple[str, ...], noted: bool
) -> None:
    def objects(message: Get[Any]) -> dict[str, object]:
        body = bodies.objects(message)
        gone = {**body, "items": []} if arguments[0] == "logs" and message.kind == "Rank" else body
        return {**gone, "unobserved": ["node-b"]}

    complete = cli(*arguments)
    assert "note:" not in complete.err
    controller.answers.update(get=objects, usage={**bodies.USAGE, "unobserved": ["node-b"]})
    partial = cli(*arguments)
    assert (NOTE in partial.err) is noted
    if arguments[0] != "logs":
        assert len(partial.out) == len(complete.out)
