"""Steps about the managed runtimes of nodes."""

from __future__ import annotations

from reconciler.execution.tools import Tools
from reconciler.state import BuildRuntime, PruneRuntimes


async def build(step: BuildRuntime, tools: Tools) -> str:
    """Put the managed runtime on a node."""
    return await tools.runtimes.build(step.node)


async def prune(step: PruneRuntimes, tools: Tools) -> str:
    """Remove old managed runtimes of a node."""
    return await tools.runtimes.prune(step.node, step.runtime)
