"""What a group died of, and whether another attempt can help."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.state import Cause, FaultClass
from reconciler.wire.launch import ExitCode

from . import stalls
from .view import View

PROOFS_MAX = 3
"""A group that is ready and cannot answer so often is as good as dead."""
LASTING_REFUSALS = (ExitCode.CONFIG, ExitCode.WEIGHTS)
"""Exits that another attempt with the same files cannot change: tried again only slowly."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What a group died of."""

    cause: Cause
    text: str
    at: float
    """When, as far as is known."""
    fault: FaultClass
    lasting: str = ""
    """Why another attempt with the same files cannot end otherwise."""
    counted: bool = True
    """Whether forming again is charged to the budget of restarts."""
    person: str = ""
    """The exact steps that only a person can take; empty where nobody is needed."""


def fault(view: View) -> Fault | None:
    """Why the replica's group is as good as dead; None for one that is not."""
    ended = view.ended
    if ended is not None:
        report = ended.report.exit
        lasting = ended.last_words if report and report.code in LASTING_REFUSALS else ""
        at = report.at if report else view.world.now
        return Fault(Cause.RANK_EXITED, ended.ending, at, FaultClass.RANK_CRASH, lasting)
    record = view.record
    stall = stalls.of_group(view, tuple(view.current.values()))
    if stall is not None:
        return Fault(stall.cause, stall.text, view.world.now - stall.seconds, FaultClass.SILENT_HANG)
    proof = view.world.memory.failures.get(f"prove/{view.replica}/{record.epoch}") if record else None
    if record is None or proof is None or proof.attempts < PROOFS_MAX or record.proven_at is not None:
        return None
    text = f"epoch {record.epoch} gave no completion in {proof.attempts} attempts: {proof.text}"
    return Fault(Cause.PROOF_FAILED, text, view.world.now, FaultClass.SERVICE_WEDGED)
