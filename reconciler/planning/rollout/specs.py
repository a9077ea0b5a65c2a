"""Compares the specs that groups are formed for, with each other and with the manifests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from reconciler.planning.context import workload
from reconciler.resources import Model, ModelDeployment
from reconciler.resources.deployment import ModelDeploymentSpec
from reconciler.state import DeploymentName, Desired, GroupRecord, ReplicaId
from reconciler.state.formed_spec import FORMED_FOR, SERVED_WITH, FormedSpec
from reconciler.state.machine.weights import named, shown


def of_manifests(desired: Desired, name: DeploymentName) -> FormedSpec | None:
    """Return the spec of a deployment; None if its Model is missing."""
    return desired.once(_of_manifests, name)


def _of_manifests(desired: Desired, name: DeploymentName) -> FormedSpec | None:
    deployment = desired.deployments[name]
    model = desired.models.get(deployment.spec.model)
    return FormedSpec.of(deployment, model) if model is not None else None


def unwritten(desired: Desired, records: Iterable[GroupRecord]) -> Iterator[tuple[GroupRecord, FormedSpec]]:
    """Yield the groups without a spec that serve the manifests, each with the spec of these."""
    for record in records:
        replica = record.workload
        if record.spec or not isinstance(replica, ReplicaId):
            continue
        wanted = workload.of_manifests(desired, replica)
        if wanted is not None and wanted.is_served_by(record.fingerprint, record.context):
            yield record, FormedSpec.of(wanted.deployment, wanted.model)


def applied(deployment: ModelDeployment, spec: FormedSpec) -> tuple[ModelDeployment, Model]:
    """Return a deployment and its Model as a group was formed for them; the rest is as the deployment has it now."""
    then = spec.deployment
    serving = {name: getattr(then.serving, name) for name in _names(type(then.serving), SERVED_WITH)}
    update = {name: getattr(then, name) for name in _names(ModelDeploymentSpec, FORMED_FOR)}
    update["serving"] = deployment.spec.serving.model_copy(update=serving)
    return deployment.model_copy(update={"spec": deployment.spec.model_copy(update=update)}), spec.model


def _names(kind: Any, aliases: Iterable[str]) -> list[str]:
    return [name for name, each in kind.model_fields.items() if each.alias in aliases]


def weights(model: Model) -> str:
    """Return the weights of a Model, as ``weights.named`` does; empty for weights at a path."""
    return named(model.spec.source.huggingface)


def hashed(spec: FormedSpec) -> str:
    return workload.hash_of(spec.deployment, spec.model)


def may_need_more(before: FormedSpec, after: FormedSpec) -> bool:
    """Return whether ranks for one spec may need more memory than those for the other.

    If the fields alone do not show that, they may: other weights, another split, or a context that is chosen
    when a group is formed.
    """
    old, new = before.deployment, after.deployment
    was, now = old.serving, new.serving
    chosen = "auto" in (was.context, now.context)
    return (
        before.model.spec.source != after.model.spec.source
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
    """One field that differs between two specs. For people: ``serving.maxBatch 16 → 12``."""

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
def changes(before: FormedSpec, after: FormedSpec) -> tuple[Change, ...]:
    """List the differences between two specs. A requested restart is no difference."""
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


def shown_changes(before: FormedSpec | None, after: FormedSpec | None) -> str:
    """Return the differences between two specs, for people; empty if one is not known."""
    return ", ".join(map(str, changes(before, after))) if before and after else ""


RESTARTED = "restartedAt"


def _flat(spec: FormedSpec) -> dict[str, Any]:
    """Return the fields of a spec by their paths, with the weights as one."""
    body = spec.body
    found = dict(_paths(body["spec"]))
    found |= {f"serving.{name}": value for name, value in _paths(body["serving"])}
    source = spec.model.spec.source
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
