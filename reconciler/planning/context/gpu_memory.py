"""The memory of a machine that ranks can have: on a Mac only the part that its GPU may wire."""

from __future__ import annotations

from reconciler.resources.node import NodeMemory
from reconciler.state import NodeName, NodeObservation
from reconciler.wire.node import NodeReport

from .memory_needs import gib
from .world import World

UNTOLD_SHARE = 2 / 3
"""The share of memory that counts if neither the limit nor Metal's recommendation is known: macOS was seen to let
the GPU of small Macs wire two thirds, and of larger ones three quarters."""


def wirable(node: NodeObservation) -> int:
    """Return how many bytes the ranks of a machine can have, whatever its manifest says; 0 before its first report."""
    report = node.report
    if report is None or report.system != "Darwin":
        return report.memory_bytes if report else 0
    known = node.facts.gpu_bytes
    return min(report.memory_bytes, int(report.memory_bytes * UNTOLD_SHARE) if known is None else known)


def left_to_models(memory: NodeMemory, report: NodeReport) -> int:
    """Return how many bytes of a machine its manifest leaves to ranks."""
    unreserved = report.memory_bytes - memory.reserve
    return unreserved if memory.limit is None else min(memory.limit, unreserved)


def bounded_by_gpu(world: World, name: NodeName) -> str:
    """Say that a machine's GPU leaves less to ranks than its manifest does; empty if it does not."""
    node, manifest = world.node(name), world.desired.nodes.get(name)
    if node.report is None or manifest is None:
        return ""
    can, may = wirable(node), left_to_models(manifest.spec.memory, node.report)
    return f"its GPU may wire {gib(can)} of {gib(node.report.memory_bytes)}" if can < may else ""


def how_to_raise(name: NodeName) -> str:
    """Say how the GPU of a machine may wire more."""
    return (
        f"let the GPU of {name} wire more: spec.memory.limit and spec.repair.wiredLimit of its Node, or there:"
        " sudo sysctl iogpu.wired_limit_mb=MIB, again after each restart"
    )
