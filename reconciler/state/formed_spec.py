"""The part of a spec that a group is formed for: kept with each group, so that it can be formed again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from reconciler.resources import Model, ModelDeployment
from reconciler.resources.deployment import ModelDeploymentSpec

FORMED_FOR = ("model", "parallelism", "transport", "fastSynch", "restartedAt")
"""Fields of the spec of a deployment; with them go those of ``serving`` below."""
SERVED_WITH = ("context", "ropeScaling", "maxBatch", "kvCache", "prefixCache", "embedding")
API = "reconciler/v1alpha1"


@dataclass(frozen=True, slots=True)
class FormedSpec:
    """The part of a deployment's spec that a group is formed for, with its Model. Equal specs have equal JSON.

    Stores, launch specs and recorded facts have it as text. Fields that are changed in place (names, limits of requests,
    placement, bounds of time) are not part of it.
    """

    json: str
    """Its text; also that of an earlier version, as it was."""
    deployment: ModelDeploymentSpec = field(compare=False, repr=False)
    """The fields above; the others have their defaults."""
    model: Model = field(compare=False, repr=False)
    """Without labels, and without what is changed in place."""

    @classmethod
    def of(cls, deployment: ModelDeployment, model: Model) -> Self:
        text = json.dumps(_body(deployment.spec, model), sort_keys=True, separators=(",", ":"))
        return cls(text, *_decoded(text))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the spec that has this text; None if there is none, or this version cannot read it."""
        try:
            return cls(text, *_decoded(text)) if text else None
        except (ValueError, LookupError, TypeError):
            return None

    def __str__(self) -> str:
        return self.json

    @property
    def body(self) -> dict[str, Any]:
        """Return its fields as plain JSON, without those that have their defaults: ``spec``, ``serving`` and ``model``."""
        return _body(self.deployment, self.model)


def written(spec: FormedSpec | None) -> str:
    """Return the text of a spec; empty for none."""
    return "" if spec is None else spec.json


@lru_cache(maxsize=256)
def _decoded(text: str) -> tuple[ModelDeploymentSpec, Model]:
    """Raises ``ValueError``, ``LookupError`` or ``TypeError`` for other texts."""
    body = json.loads(text)
    spec = ModelDeploymentSpec.model_validate({**body["spec"], "serving": body["serving"]}, strict=False)
    model = {"apiVersion": API, "kind": "Model", "metadata": {"name": spec.model}, "spec": body["model"]}
    return spec, Model.model_validate(model, strict=False)


def _body(deployment: ModelDeploymentSpec, model: Model) -> dict[str, Any]:
    spec = deployment.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    serving = spec.get("serving", {})
    return {
        "spec": {name: spec[name] for name in FORMED_FOR if name in spec},
        "serving": {name: serving[name] for name in SERVED_WITH if name in serving},
        "model": model.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"keep"}),
    }
