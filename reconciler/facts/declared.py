"""The manifests and operations in force that are recorded with the facts, so that a plan can describe changes of
them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError

from reconciler.resources import Manifest, Model, ModelDeployment
from reconciler.resources.operation import Operation

from .form import Malformed
from .privacy import HIDDEN

SERVED: dict[str, type[Manifest]] = {"Model": Model, "ModelDeployment": ModelDeployment}
"""The kinds whose changes a plan describes. Nodes are left out, because they have the access to machines."""


def written(manifests: Iterable[Manifest]) -> list[dict[str, Any]]:
    return [each.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in manifests]


def anonymous(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return operations without their authors and reasons. Approvals do not affect a plan, and are left out."""
    fields = {"by": HIDDEN, "reason": ""}
    return tuple(
        each.model_copy(update={"spec": each.spec.model_copy(update=fields)})
        for each in operations
        if each.spec.verb != "approve"
    )


def served(bodies: Sequence[Any], place: str) -> tuple[Manifest, ...]:
    """Return Models and ModelDeployments from plain JSON. Raises ``Malformed``."""
    return tuple(_read(SERVED, body, f"{place}[{at}]") for at, body in enumerate(bodies))


def operations(bodies: Sequence[Any], place: str) -> tuple[Operation, ...]:
    """Return operations from plain JSON. Raises ``Malformed``."""
    found = (_read({"Operation": Operation}, body, f"{place}[{at}]") for at, body in enumerate(bodies))
    return tuple(each for each in found if isinstance(each, Operation))


def _read(kinds: dict[str, type[Any]], body: Any, place: str) -> Manifest:
    kind = kinds.get(str(body.get("kind"))) if isinstance(body, dict) else None
    if kind is None:
        raise Malformed(f"{place}: expected a manifest of {' or '.join(kinds)}")
    try:
        found: Manifest = kind.model_validate(body, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        raise Malformed(f"{place}.{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return found
