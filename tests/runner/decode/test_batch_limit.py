"""A rank computes no more sequences at a time than memory was planned for."""

from __future__ import annotations

from pathlib import Path

from reconciler.runner.model.files import inspect
from reconciler.runner.model.loading import load_shard
from reconciler.wire.generation import Finished

from .test_steps import Loop


def test_of_three_requests_the_third_waits_while_two_are_all_that_fit(endless: Path) -> None:
    loop = Loop(load_shard(inspect(str(endless)), None, "tensor", trust_remote_code=False), batch_max=2)
    for name in "abc":
        loop.put(name, tokens_max=3)
    loop.run()
    inserted = [len(step.insert) for step in loop.steps if step.insert]
    assert inserted[0] == 2
    assert sum(inserted) == 3
    assert all(isinstance(events[-1], Finished) for events in loop.events.values())
