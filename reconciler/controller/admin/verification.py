"""Verifies weights on request: begins a run, and reports its progress."""

from __future__ import annotations

import asyncio

from reconciler.controller.parts import Parts
from reconciler.errors import Refused, listing
from reconciler.resources import HuggingFace, Model
from reconciler.state import NodeName, NodeObservation
from reconciler.state.machine.weights import ON_DEMAND
from reconciler.wire import answers, node
from reconciler.wire.weights import FetchPhase, FetchProblem, FetchSource

REQUEST_SECONDS_MAX = 15.0
LOOKS_MAX, LOOK_SECONDS = 100, 0.05
"""The wait for the first report of a run."""
LOST: answers.VerifiedNode = {
    "phase": FetchPhase.FAILED,
    "doneBytes": 0,
    "totalBytes": 0,
    "problem": FetchProblem.INTERRUPTED,
    "text": "no report arrived; try again",
    "files": [],
}


async def begin(parts: Parts, name: str) -> str:
    """Have every node with the weights hash them, once per shared folder. Return the name of the run.

    Raises ``Refused`` if there are no digests to compare with, or no node has the weights.
    """
    model, hub = _fetched(parts, name)
    path = model.spec.source.folder
    run = f"{ON_DEMAND}{parts.entropy()[:12]}"
    chosen = _first_of_each_folder(parts, path)
    if not chosen:
        text = f"no answering node has the weights of {name}; see: reconciler describe model {name}"
        raise Refused("NotFetched", text)
    source = FetchSource(hub.repo, hub.revision, parts.around.hub.endpoint, model.spec.trust_remote_code)
    secret = parts.around.hub.token(hub.token_ref)
    for each in chosen:
        link, _ = parts.collector.link(each)
        weights = parts.collector.nodes()[each].model(path)
        only = () if weights is not None and weights.lacking else None
        request = node.FetchWeights(
            parts.store.token, path, source, run, thorough=True, secret=secret, only=only
        )
        await link.request(request, timeout=REQUEST_SECONDS_MAX)
        parts.collector.look(each)
    for _ in range(LOOKS_MAX):
        if all(_at_it(parts.collector.nodes()[each], path, run) for each in chosen):
            break
        await asyncio.sleep(LOOK_SECONDS)
    return run


def stands(parts: Parts, name: str, run: str) -> answers.Verification:
    """Return the progress of a run, for ``wire.admin.Verify``."""
    model, _ = _fetched(parts, name)
    path = model.spec.source.folder
    seen = dict(sorted(parts.collector.nodes().items()))
    at_it = {_place(each, path): name for name, each in seen.items() if _at_it(each, path, run)}
    nodes: list[answers.VerifiedNode] = []
    for each, observation in seen.items():
        weights, first = observation.model(path), at_it.get(_place(observation, path))
        if first == each:
            nodes.append({"node": each, **_progress(observation, path)})
        elif first is not None:
            nodes.append({"node": each, "beside": first})
        elif weights is not None and weights.present:
            nodes.append({"node": each, **LOST})
    done = all(entry.get("phase", "done") in FetchPhase.ENDED for entry in nodes)
    return {"run": run, "done": done, "nodes": nodes}


def _at_it(seen: NodeObservation, path: str, run: str) -> bool:
    weights = seen.model(path)
    return weights is not None and weights.fetch is not None and weights.fetch.wish == run


def _progress(seen: NodeObservation, path: str) -> answers.VerifiedNode:
    weights = seen.model(path)
    assert weights is not None
    assert weights.fetch is not None
    progress = weights.fetch.progress
    return {
        "phase": progress.phase,
        "doneBytes": progress.done_bytes,
        "totalBytes": progress.total_bytes,
        "problem": progress.problem,
        "text": progress.text,
        "files": [{"name": file.name, "size": file.size, "state": file.state} for file in progress.files],
    }


def _fetched(parts: Parts, name: str) -> tuple[Model, HuggingFace]:
    model = parts.last.desired.models.get(name)
    if model is None:
        raise Refused("NotFound", f'there is no model "{name}"; {listing("models")}')
    if model.spec.source.huggingface is None:
        text = f"the weights of {name} are at a path, so there are no digests to compare with"
        raise Refused("NothingToCompare", text)
    return model, model.spec.source.huggingface


def _first_of_each_folder(parts: Parts, path: str) -> list[NodeName]:
    found: dict[tuple[str, str] | None, NodeName] = {}
    for name, seen in sorted(parts.collector.nodes().items()):
        weights = seen.model(path)
        if weights is not None and weights.present and seen.problem == "":
            found.setdefault(_place(seen, path), name)
    return list(found.values())


def _place(seen: NodeObservation, path: str) -> tuple[str, str] | None:
    weights = seen.model(path)
    return (seen.report.host_id, weights.directory) if seen.report and weights else None
