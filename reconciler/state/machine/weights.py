"""Weights that nodes fetch: the steps that fetch and remove them, and their state on a node."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.resources import HuggingFace, TokenRef
from reconciler.state.identity import NodeName, ObjectKey
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import FetchPhase, FetchProblem, FetchReport, FetchSource, Progress, hub_path

ATTEMPTS_MAX = 3
"""Most attempts in a row without progress, before even a usually temporary problem counts as permanent."""
SLOW_BYTES_PER_SECOND = 1_000_000.0
"""Slower fetches are reported: a model of 40 GB takes half a day at this rate."""


ON_DEMAND = "verify/"
"""Beginning of the ``request_id`` of a fetch that a person has requested, to verify present weights."""


@dataclass(frozen=True, slots=True)
class FetchWeights:
    """Fetch the weights of a Model to a node, complete and verified."""

    model: str
    node: NodeName
    path: str
    source: FetchSource
    token: TokenRef | None
    request_id: str
    """Identifies the spec, or the run of a check, that needs them: a new one may try again after a failed attempt.
    ``wish`` on the wire."""
    origin: NodeName | None = None
    """A node that has the weights already, and gives them; None: they come from the hub."""
    sockets: tuple[str, str] = ("", "")
    """Sockets at which the origin sends and this node receives, absolute on each."""
    only: tuple[str, ...] | None = None
    """Weight files to fetch in full, in addition to the present ones; None means all."""

    @property
    def subject(self) -> str:
        return f"weights/{self.node}/{self.path}"

    @property
    def object(self) -> ObjectKey:
        return ObjectKey("Model", self.model)

    @property
    def key(self) -> str:
        return f"fetch/{self.node}/{self.path}"

    def __str__(self) -> str:
        what = f"{self.source.repo} at {self.source.revision[:10]}"
        if self.only is not None:
            count = len(self.only)
            what = f"{f'{count} weight file' + 's' * (count > 1) if count else 'the outline'} of {what}"
        if self.origin is not None:
            return f"copy {what} from {self.origin} to {self.node}"
        return f"fetch {what} on {self.node}"


@dataclass(frozen=True, slots=True)
class RemoveWeights:
    """Remove weights that are no longer wanted."""

    node: NodeName
    path: str
    size: int

    @property
    def subject(self) -> str:
        """Return the same subject as a fetch, so that only one of both runs for the same weights."""
        return f"weights/{self.node}/{self.path}"

    @property
    def object(self) -> ObjectKey:
        return ObjectKey("Node", self.node)

    @property
    def key(self) -> str:
        return f"remove-weights/{self.node}/{self.path}"

    def __str__(self) -> str:
        return f"remove {self.path} from {self.node} ({gigabytes(self.size)}): it is no longer wanted"


def named(hub: HuggingFace | None) -> str:
    """Return repository and commit in one text; empty for weights at a path."""
    return f"{hub.repo}@{hub.revision}" if hub is not None else ""


def folder(weights: str) -> str:
    """Return the folder, on every node, of weights as ``named`` returns them."""
    repo, _, revision = weights.partition("@")
    return hub_path(repo, revision)


def shown(weights: str) -> str:
    """Return weights as ``named`` returns them, for people."""
    repo, _, revision = weights.partition("@")
    return f"{repo} at {revision[:10]}"


def present(weights: ModelReport | None, in_full: bool = True) -> bool:
    """Return whether weights are present and verified: ``in_full``, or with some files as outlines."""
    return weights is not None and weights.verified and not (in_full and weights.lacking)


def running(weights: ModelReport | None) -> FetchReport | None:
    return weights.fetch if weights and weights.fetch and weights.fetch.running else None


def failed(weights: ModelReport | None) -> FetchReport | None:
    """Return the last fetch if it ended without weights."""
    if weights is None or present(weights) or weights.fetch is None:
        return None
    return weights.fetch if weights.fetch.progress.phase == FetchPhase.FAILED else None


def failure(weights: ModelReport | None) -> Progress | None:
    """Return how the last fetch ended without weights. One that runs since changes nothing of that until it gets further."""
    if weights is None or present(weights) or weights.fetch is None:
        return None
    ended = failed(weights)
    return ended.progress if ended else weights.fetch.failure


def given_up(weights: ModelReport | None) -> Progress | None:
    """Return how the last fetch failed, if that was for good: as far as known, a person has to act."""
    ended = failure(weights)
    if weights is None or weights.fetch is None or ended is None:
        return None
    passing = ended.problem in FetchProblem.PASSING
    return ended if not passing or weights.fetch.attempts >= ATTEMPTS_MAX else None


def unfetched(model: str, name: NodeName, weights: ModelReport) -> str:
    """Return why a node has no weights, for people."""
    ended = failure(weights)
    why = ended.text if ended else "no deployment needs them on this node"
    return f"model {model}: its weights are not on {name}: {why}"


def progress(fetch: FetchReport) -> str:
    """Return the progress of a fetch for people: bytes, rate, time left."""
    now = fetch.progress
    if now.phase == FetchPhase.LISTING or not now.total_bytes:
        return "asking the hub for its files"
    share = 100 * now.done_bytes // now.total_bytes
    text = f"{gigabytes(now.done_bytes)} of {gigabytes(now.total_bytes)} ({share} %)"
    if now.phase == FetchPhase.VERIFYING:
        return f"verifying, {text}"
    if not now.rate:
        return text
    left = (now.total_bytes - now.done_bytes) / now.rate
    return f"{text}, {now.rate / 1e6:.1f} MB/s, {_duration(left)} left"


def slow(fetch: FetchReport) -> bool:
    """Return whether a fetch is slow enough to be reported."""
    now = fetch.progress
    return now.phase == FetchPhase.FETCHING and 0 < now.rate < SLOW_BYTES_PER_SECOND


def gigabytes(size: int) -> str:
    """Return bytes for people, in the units of hubs."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
