"""Deadlines: every wait of the planner for ranks, with its reason."""

from __future__ import annotations

from reconciler.wire.launch import Phase

DRAIN_SECONDS = 30.0
"""Time for a healthy group to finish the requests that it has begun."""
GRACE_SECONDS = 5.0
"""Time for the other ranks of a dead group to end in order. They have nothing left to finish."""
SHUTDOWN_SECONDS = 3.0
"""The same while everything is being stopped: somebody is waiting at a terminal."""
HUNG_GRACE_SECONDS = 3.0
"""The same for a group that hangs: it rarely reacts to SIGTERM, and its clients are waiting."""

SILENCE_SECONDS = 5.0
"""A group that owes its clients an answer for this long is reported, and in doubt: no healthy decode step takes that long."""
START_SECONDS = 120.0
"""Imports on a cold Mac take 20 to 30 s and differ between hosts. This is four times as long."""
RENDEZVOUS_SECONDS = 120.0
"""The same, because ranks wait for the imports of the slowest. A rank enforces this itself."""
RENDEZVOUS_MARGIN_SECONDS = 30.0
"""Extra time for a rank to report that it ran out of time. One that has not ended by then cannot report it."""
MEETING_SECONDS = 20.0
"""Once all ranks have finished their imports, they find each other within a second. Behind a firewall they never do, and
are given up after this time."""
VERBS_SECONDS = 60.0
"""Setting up a queue pair takes milliseconds, and fails by itself well within this time if the other end does not
answer. A rank enforces this itself if the driver lets it."""
KEEP_ALIVE_SECONDS = 60.0
"""Queue pairs were seen to decay after some 23 min without use (gojaccl's documentation), in one case over a
night."""
LOADING_SECONDS = 60.0
LOADING_BYTES_PER_SECOND = 50_000_000
"""Slower than any useful disk: weights that are read lazily may show in no counter until all of them are there."""
WARM_SECONDS = 120.0
"""The first step compiles kernels and touches all weights for the first time."""
PROOF_SECONDS_MAX = 120.0
"""Time for the first completion: a few tokens, over the path of all requests."""
PREFILL_TOKENS = 1200
"""Reading this many tokens may take as long as one decode step. With the default of a minute that is 20 a second;
models of a trillion parameters read 60 and more on a few Macs."""


def step_seconds(stall_after: float, step_tokens: int) -> float:
    """Return the seconds that a step may take if it decodes and reads ``step_tokens`` of prompts."""
    return stall_after * (1 + step_tokens / PREFILL_TOKENS)


def standstill_seconds(phase: str, share_bytes: int, progress_deadline: float, step_tokens: int = 0) -> float:
    """Return how many seconds a rank that is coming up may show no progress in this phase.

    Loading is not failing: while bytes keep arriving, only ``progress_deadline`` ends it. ``step_tokens`` is the length of
    the part of a prompt that it is reading.
    """
    allowed = {
        Phase.STARTING: START_SECONDS,
        Phase.RENDEZVOUS: RENDEZVOUS_SECONDS + RENDEZVOUS_MARGIN_SECONDS,
        Phase.VERBS: VERBS_SECONDS + RENDEZVOUS_MARGIN_SECONDS,
        Phase.LOADING: LOADING_SECONDS + share_bytes / LOADING_BYTES_PER_SECOND,
        Phase.WARM: step_seconds(WARM_SECONDS, step_tokens),
    }
    return min(allowed[phase], progress_deadline)
