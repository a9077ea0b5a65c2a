"""Turns manifests of real machines and models into manifests that a rehearsal can serve. Pure.

Machines become emulated ones, every model becomes the tiny model, and the rehearsal sends nothing to anybody outside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reconciler.source.yaml.plain import as_yaml

SPLITS = (8, 4, 2, 1)
"""Numbers of ranks that the tiny model can be split over."""
GROWTH = {"idle": "1s", "groupAge": "1s", "nodeUptime": "1s"}
"""Short times, so that a group improves within the rehearsal."""
CONTEXT_MIN = 32768
LISTEN = "127.0.0.1:8400"
GATEWAY = {
    "apiVersion": "reconciler/v1alpha1",
    "kind": "Gateway",
    "metadata": {"name": "main"},
    "spec": {"listen": LISTEN, "auth": {"mode": "none"}},
}
LEFT_OUT = {"Notifier": "sends no messages", "ApiKey": "needs no keys"}
ACCESS = ("local", "ssh", "python", "address")
"""Fields of a Node with the access to it."""
Document = dict[str, Any]


@dataclass
class StandIns:
    """The manifests to rehearse with, and their differences in words."""

    documents: list[Document] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    models: dict[str, int] = field(default_factory=dict)
    """The needed folders of weights, each with its longest context in tokens."""

    def of_kind(self, kind: str) -> dict[str, Document]:
        return {each["metadata"]["name"]: each for each in self.documents if each["kind"] == kind}

    @property
    def served(self) -> dict[str, int]:
        """Return the deployments that should serve, each with its number of replicas."""
        found = {
            name: each["spec"].get("replicas", 1) for name, each in self.of_kind("ModelDeployment").items()
        }
        return {name: replicas for name, replicas in found.items() if replicas}

    @property
    def asked(self) -> set[str]:
        """Return the served deployments that answer in words."""
        deployments = self.of_kind("ModelDeployment")
        return {
            name for name in self.served if not deployments[name]["spec"].get("serving", {}).get("embedding")
        }

    @property
    def text(self) -> str:
        """Return the manifests as YAML."""
        return "---\n".join(map(as_yaml, self.documents))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def stand_ins(documents: Sequence[Document], accesses: Mapping[str, Document]) -> StandIns:
    """Return the manifests to rehearse with instead of these.

    ``accesses``: the access to each emulated machine, as in the ``spec`` of its Node; a Node without one stays as it is.
    """
    made = StandIns()
    for document in documents:
        kind = document["kind"]
        if kind in LEFT_OUT:
            made.note(f"the rehearsal {LEFT_OUT[kind]}: no {kind}")
            continue
        stand_in = {**document, "spec": dict(document["spec"])}
        if kind in _STAND_INS:
            _STAND_INS[kind](made, stand_in)
        if kind == "Node" and (access := accesses.get(stand_in["metadata"]["name"])):
            kept = {name: value for name, value in stand_in["spec"].items() if name not in ACCESS}
            stand_in["spec"] = {**kept, **access}
        made.documents.append(stand_in)
    if documents and not made.of_kind("Gateway"):
        made.documents.append(GATEWAY)
    for name, model in made.of_kind("Model").items():
        contexts = [
            each["spec"].get("serving", {}).get("context", "auto")
            for each in made.of_kind("ModelDeployment").values()
            if each["spec"]["model"] == name
        ]
        numbers = [context for context in contexts if isinstance(context, int)]
        made.models[model["spec"]["source"]["path"]] = max([CONTEXT_MIN, *numbers])
    return made


def _node(made: StandIns, document: Document) -> None:
    document["spec"]["repair"] = {**document["spec"].get("repair", {}), "network": True}


def _model(made: StandIns, document: Document) -> None:
    source = document["spec"]["source"]
    name = document["metadata"]["name"]
    made.note("every model is the tiny model: figures of memory are not those of your weights")
    # Other weights are in another folder, so that a change of them restarts the groups that serve them.
    digest = hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()[:8]
    document["spec"] = {"source": {"path": f"{name}-{digest}"}}


def _deployment(made: StandIns, document: Document) -> None:
    name, spec = document["metadata"]["name"], document["spec"]
    parallelism = dict(spec.get("parallelism", {}))
    nodes = parallelism.get("nodes", 1)
    bounds = {"min": nodes, "max": nodes} if isinstance(nodes, int) else dict(nodes)
    fitting = {which: next(each for each in SPLITS if each <= count) for which, count in bounds.items()}
    if fitting != bounds:
        made.note(
            f"{name} is split over {_shown(fitting)} nodes, not {_shown(bounds)}: the tiny model allows no more"
        )
    if parallelism.get("strategy") == "pipeline":
        made.note(f"{name} is split by tensor: the tiny model is no pipeline")
        parallelism["strategy"] = "tensor"
    parallelism["nodes"] = fitting
    spec |= {"parallelism": parallelism, "growth": GROWTH}


def _shown(bounds: Mapping[str, int]) -> str:
    least, most = bounds.get("min", 1), bounds.get("max", 1)
    return str(most) if least == most else f"{least} to {most}"


def _gateway(made: StandIns, document: Document) -> None:
    spec = document["spec"]
    kept = {name: spec[name] for name in ("hold",) if name in spec}
    if spec.get("auth", {}).get("mode") == "keys" or spec.get("tls"):
        made.note("the endpoint is on loopback, without keys and certificates")
    document["spec"] = {**kept, "listen": LISTEN, "auth": {"mode": "none"}}


_STAND_INS: Mapping[str, Callable[[StandIns, Document], None]] = {
    "Node": _node,
    "Model": _model,
    "ModelDeployment": _deployment,
    "Gateway": _gateway,
}
