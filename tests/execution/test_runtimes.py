"""Old runtimes are removed, and looked at again as long as one of them is in use."""

from __future__ import annotations

import pytest

from reconciler.execution.runtimes import AGAIN_SECONDS, Builder
from reconciler.remote.runtime.build import Pruned
from reconciler.state import NodeName
from reconciler.state.machine.runtimes import Tidied
from tests.machines import LocalMachines

NODE = NodeName("bench")


@pytest.mark.parametrize("used", [(), ("old",)], ids=["unused", "in use"])
@pytest.mark.parametrize("removed", [(), ("older", "oldest")], ids=["nothing", "two"])
async def test_a_node_is_asked_again_only_where_an_old_runtime_is_in_use(
    removed: tuple[str, ...], used: tuple[str, ...]
) -> None:
    async def prune(name: NodeName) -> Pruned:
        return Pruned(removed, used)

    builder = Builder(LocalMachines(prune_runtimes=prune), lambda: 1000.0)

    said = await builder.prune(NODE, "key")

    assert said == ("removed older, oldest" if removed else "")
    assert builder.known.tidied == {NODE: Tidied("key", 1000.0 + AGAIN_SECONDS if used else None)}
