"""Weights hashed on demand: what the command line has begun, and what came of it."""

from __future__ import annotations

from typing import Any

from reconciler.errors import Refused
from reconciler.resources import HuggingFace, Model
from reconciler.state import NodeName, NodeObservation
from reconciler.state.weights import ON_DEMAND
from reconciler.wire import node
from reconciler.wire.codec import to_wire
from reconciler.wire.weights import FetchProblem, FetchSource, Progress

from .reconcile import Parts

REQUEST_SECONDS_MAX = 15.0


async def begin(parts: Parts, name: str) -> str:
    """Have every node that has the weights hash them, those that share a folder once; the name of this run.

    Raises ``Refused`` where there is nothing to compare with, or no node that has them.
    """
    model, hub = _fetched(parts, name)
    path = model.spec.source.folder
    run = f"{ON_DEMAND}{parts.entropy()[:12]}"
    asked = _first_of_each_folder(parts, path)
    if not asked:
        raise Refused(
            "NotFetched",
            f"no node that answers has the weights of {name}; see: reconciler describe model {name}",
        )
    source = FetchSource(hub.repo, hub.revision, parts.tools.hub.endpoint, model.spec.trust_remote_code)
    secret = parts.tools.hub.token(hub.token_ref)
    for each in asked:
        link, _ = parts.collector.link(each)
        request = node.FetchWeights(parts.store.token, path, source, run, thorough=True, secret=secret)
        await link.request(request, timeout=REQUEST_SECONDS_MAX)
        parts.collector.look(each)
    return run


def stands(parts: Parts, name: str, run: str) -> dict[str, Any]:
    """How a run stands, as ``wire.admin.Verify`` has it."""
    model, _ = _fetched(parts, name)
    path = model.spec.source.folder
    firsts = _first_of_each_folder(parts, path)
    places = {_place(parts.collector.nodes()[each], path): each for each in firsts}
    nodes = []
    for each, seen in sorted(parts.collector.nodes().items()):
        first = places.get(_place(seen, path))
        if first is not None and first != each:
            nodes.append({"node": each, "beside": first})
        elif first is not None:
            nodes.append({"node": each, **_progress(seen, path, run)})
    done = all(entry.get("phase", "done") in ("done", "failed") for entry in nodes)
    return {"run": run, "done": done, "nodes": nodes}


def _progress(seen: NodeObservation, path: str, run: str) -> dict[str, Any]:
    weights = seen.model(path)
    fetch = weights.fetch if weights else None
    progress = fetch.progress if fetch else Progress("waiting")
    if fetch is not None and fetch.wish != run:
        text = "another fetch of these weights was begun meanwhile; ask again"
        progress = Progress("failed", problem=FetchProblem.INTERRUPTED, text=text)
    return {
        "phase": progress.phase,
        "doneBytes": progress.done_bytes,
        "totalBytes": progress.total_bytes,
        "problem": progress.problem,
        "text": progress.text,
        "files": [to_wire(file) for file in progress.files],
    }


def _fetched(parts: Parts, name: str) -> tuple[Model, HuggingFace]:
    model = parts.last.desired.models.get(name)
    if model is None:
        raise Refused("NotFound", f'there is no model "{name}"; see: reconciler get models')
    if model.spec.source.huggingface is None:
        text = f"the weights of {name} are at a path, and nobody has told what their digests should be"
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
