"""Steps that change ranks, and the proof of a group."""

from __future__ import annotations

from dataclasses import replace

from reconciler.execution.tools import Tools
from reconciler.state import ContinueRank, ForgetRank, ProveGroup, RequestedStop, StartRank, StopRank
from reconciler.wire import node
from reconciler.wire.launch import TransportProof

from . import jobs
from .requests import change

STOP_REPEATED_AFTER_SECONDS = 10.0
"""Time after the grace period at which a request to stop counts as lost, and is repeated."""
CONTINUATIONS_KEPT = 16
"""Continuations to remember for each rank: more than the planner ever counts."""
STOPS_KEPT_SECONDS = 600.0
"""Age at which a request to stop is forgotten: the rank is gone, or its node is."""


async def prove(step: ProveGroup, tools: Tools) -> str:
    """Request one completion from a group, and note its success."""
    seconds = await tools.machines.request_completion(step.node, step.socket)
    tools.groups.prove(step.replica, step.epoch, tools.clock(), step.combination, step.proof)
    text = f"answered in {seconds:.1f} s"
    if step.proof is not None:
        text += f"; {step.proof.text} ({_seconds(step.proof)})"
    if step.moved:
        text += f"; weights moved {step.moved}, not served for {tools.clock() - step.since:.1f} s"
    return text


def _seconds(proof: TransportProof) -> str:
    return f"sums {proof.sums_seconds:.1f} s, prompt {proof.prompt_seconds:.1f} s, over TCP {proof.reference_seconds:.1f} s"


async def start(step: StartRank, tools: Tools) -> None:
    await change(tools, step.node, node.StartRank(tools.token, jobs.with_secrets(step, tools)))


async def stop(step: StopRank, tools: Tools) -> None:
    """Ask a rank to end, and note the time by which it should have ended."""
    await change(tools, step.node, node.StopRank(tools.token, step.id, step.grace_seconds))
    now = tools.clock()
    gone_by = now + step.grace_seconds
    stops = tools.volatile.stops.items()
    known = {id: each for id, each in stops if each.void_at > now - STOPS_KEPT_SECONDS}
    known[step.id] = RequestedStop(gone_by, gone_by + STOP_REPEATED_AFTER_SECONDS, step.symptom)
    tools.volatile = replace(tools.volatile, stops=known)


async def go_on(step: ContinueRank, tools: Tools) -> None:
    """Continue a stopped rank."""
    # Noted before the attempt, so that unconfirmed attempts are limited too.
    known = (*tools.volatile.continued.get(step.id, ()), tools.clock())
    continued = {**tools.volatile.continued, step.id: known[-CONTINUATIONS_KEPT:]}
    tools.volatile = replace(tools.volatile, continued=continued)
    await change(tools, step.node, node.ContinueRank(tools.token, step.id))


async def forget(step: ForgetRank, tools: Tools) -> None:
    """Let the agent forget a rank that has ended."""
    await change(tools, step.node, node.ForgetRank(tools.token, step.id, step.keep_record))
    stops = {id: each for id, each in tools.volatile.stops.items() if id != step.id}
    continued = {id: each for id, each in tools.volatile.continued.items() if id != step.id}
    tools.volatile = replace(tools.volatile, stops=stops, continued=continued)
