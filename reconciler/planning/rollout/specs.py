"""The part of a spec that a group is formed for, as text: stored with each group, so that it can be formed again.

Fields that are changed in place (names, limits of requests, placement, bounds of time) are not part of it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from reconciler.planning.context import spec_hash, workload
from reconciler.resources import Model, ModelDeployment
from reconciler.resources.deployment import ModelDeploymentSpec
from reconciler.state import DeploymentName, Desired, GroupRecord
from reconciler.state.machine.weights import named, shown

FORMED_FOR = ("model", "parallelism", "transport", "fastSynch", "restartedAt")
"""Fields of the spec of a deployment; with them go those of ``serving`` below."""
SERVED_WITH = ("context", "ropeScaling", "maxBatch", "kvCache", "prefixCache", "embedding")
API = "reconciler/v1alpha1"


def write(deployment: ModelDeployment, model: Model) -> str:
    """Write the spec of a deployment with its Model, as JSON that is equal for equal specs."""
    spec = deployment.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    serving = spec.get("serving", {})
    body = {
        "spec": {name: spec[name] for name in FORMED_FOR if name in spec},
        "serving": {name: serving[name] for name in SERVED_WITH if name in serving},
        "model": model.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"keep"}),
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def of_manifests(desired: Desired, name: DeploymentName) -> str:
    """Return the written spec of a deployment; empty if its Model is missing."""
    return desired.once(_of_manifests, name)


def _of_manifests(desired: Desired, name: DeploymentName) -> str:
    deployment = desired.deployments[name]
    model = desired.models.get(deployment.spec.model)
    return write(deployment, model) if model is not None else ""


def unwritten(desired: Desired, records: Iterable[GroupRecord]) -> Iterator[tuple[GroupRecord, str]]:
    """Yield the groups without a written spec that serve the manifests, each with the written spec of these."""
    for record in records:
        wanted = None if record.spec else workload.of_manifests(desired, record.replica)
        if wanted is not None and wanted.is_served_by(record.fingerprint, record.context):
            yield record, of_manifests(desired, record.replica.deployment)


def read(deployment: ModelDeployment, text: str) -> tuple[ModelDeployment, Model]:
    """Return a deployment and its Model as a written spec has them; the rest is as the deployment has it now."""
    then, model = _parsed(text)
    serving = {name: getattr(then.serving, name) for name in _names(type(then.serving), SERVED_WITH)}
    update = {name: getattr(then, name) for name in _names(ModelDeploymentSpec, FORMED_FOR)}
    update["serving"] = deployment.spec.serving.model_copy(update=serving)
    return deployment.model_copy(update={"spec": deployment.spec.model_copy(update=update)}), model


@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[ModelDeploymentSpec, Model]:
    body = json.loads(text)
    spec = ModelDeploymentSpec.model_validate({**body["spec"], "serving": body["serving"]}, strict=False)
    model = {"apiVersion": API, "kind": "Model", "metadata": {"name": spec.model}, "spec": body["model"]}
    return spec, Model.model_validate(model, strict=False)


def readable(text: str, fingerprint: str) -> bool:
    """Return whether a written spec can be read by this version, and is the one that a group with this hash was formed
    for."""
    try:
        return bool(text) and hashed(text) == fingerprint
    except (ValueError, LookupError):
        return False


def _names(kind: Any, aliases: Iterable[str]) -> list[str]:
    return [name for name, each in kind.model_fields.items() if each.alias in aliases]


def weights_of(text: str) -> str:
    """Return the weights of a written spec, as ``weights``."""
    return weights(_parsed(text)[1])


def weights(model: Model) -> str:
    """Return the weights of a Model, as ``weights.named`` does; empty for weights at a path."""
    return named(model.spec.source.huggingface)


def hashed(text: str) -> str:
    """Return the spec hash of a written spec."""
    spec, model = _parsed(text)
    return spec_hash.of_spec(spec, model)


def model(text: str) -> str:
    """Return the name of the Model of a written spec."""
    return _parsed(text)[1].metadata.name


def folder(text: str) -> str:
    """Return the folder of the weights of a written spec, as nodes report it."""
    return _parsed(text)[1].spec.source.folder


def may_need_more(before: str, after: str) -> bool:
    """Return whether ranks for one written spec may need more memory than those for the other.

    If the fields alone do not show that, they may: other weights, another split, or a context that is chosen
    when a group is formed.
    """
    (old, held), (new, holds) = _parsed(before), _parsed(after)
    was, now = old.serving, new.serving
    chosen = "auto" in (was.context, now.context)
    return (
        held.spec.source != holds.spec.source
        or old.parallelism != new.parallelism
        or (chosen and (was.context, was.rope_scaling) != (now.context, now.rope_scaling))
        or (was.embedding is None) != (now.embedding is None)
        or now.max_batch > was.max_batch
        or any(
            _more(getattr(was, name), getattr(now, name)) for name in ("context", "kv_cache", "prefix_cache")
        )
    )


def _more(before: int | str | None, after: int | str | None) -> bool:
    """Return whether a size may have grown; one that is not a number depends on others."""
    if isinstance(before, int) and isinstance(after, int):
        return after > before
    return before != after and after != 0


# --- what is different -----------------------------------------------------------------------------


class Change(NamedTuple):
    """One field that differs between two written specs. For people: ``serving.maxBatch 16 → 12``."""

    field: str
    """Its path, such as ``serving.maxBatch``."""
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.field} {_shown(self.before)} → {_shown(self.after)}"

    def is_of(self, fields: Collection[str]) -> bool:
        """Return whether it is of one of these fields of a spec, at any depth."""
        return self.field.partition(".")[0] in fields


@lru_cache(maxsize=256)
def changes(before: str, after: str) -> tuple[Change, ...]:
    """List the differences between two written specs. A requested restart is no difference."""
    old, new = _flat(before), _flat(after)
    return tuple(
        Change(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if name != RESTARTED and old.get(name) != new.get(name)
    )


def fields_changed(before: Desired, after: Desired, name: DeploymentName) -> tuple[str, ...]:
    """List the fields of a deployment's spec that differ, and those of the Model that it is served with, for people."""
    if _wish(before, name) == _wish(after, name):
        return ()
    old, new = _fields(before, name), _fields(after, name)
    return tuple(field for field in sorted(old.keys() | new.keys()) if old.get(field) != new.get(field))


def _wish(desired: Desired, name: DeploymentName) -> tuple[ModelDeploymentSpec, Model | None]:
    spec = desired.deployments[name].spec
    return spec, desired.models.get(spec.model)


def _fields(desired: Desired, name: DeploymentName) -> dict[str, Any]:
    """Return the fields of a deployment and its Model by their paths, without those that have their defaults."""
    spec, model = _wish(desired, name)
    found = dict(_paths(spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)))
    if model is not None:
        of_model = model.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        found |= {f"model.{path}": value for path, value in _paths(of_model)}
    return found


def shown_changes(before: str, after: str) -> str:
    """Return the differences between two written specs, for people."""
    return ", ".join(map(str, changes(before, after)))


RESTARTED = "restartedAt"


def _flat(text: str) -> dict[str, Any]:
    """Return the fields of a written spec by their paths, with the weights as one."""
    body = json.loads(text)
    found = dict(_paths(body["spec"]))
    found |= {f"serving.{name}": value for name, value in _paths(body["serving"])}
    source = _parsed(text)[1].spec.source
    found["weights"] = shown(named(source.huggingface)) if source.huggingface else source.folder
    found |= {
        f"model.{name}": value for name, value in _paths(body["model"]) if not name.startswith("source")
    }
    found.setdefault("serving.maxBatch", _DEFAULT.serving.max_batch)
    found.setdefault("serving.context", _DEFAULT.serving.context)
    return found


_DEFAULT = ModelDeploymentSpec.model_construct(model="")


def _paths(body: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in body.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
