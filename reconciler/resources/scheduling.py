"""The nodes that a deployment may use: taints, tolerations and node selectors, as in Kubernetes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from .base import LABEL_KEY, LABEL_VALUE, Strict

_Key = Annotated[str, LABEL_KEY.field()]
_Value = Annotated[str, LABEL_VALUE.field()]
Effect = Literal["NoSchedule"]
Priority = Annotated[int, Field(ge=-1_000_000, le=1_000_000)]
"""One scale for deployments and jobs: higher ones come first."""


class Taint(Strict):
    """A mark on a node that keeps off every deployment that does not tolerate it."""

    key: _Key
    """Key of the taint, such as `dedicated`."""
    value: _Value = ""
    """Value of the taint, such as the name of a team. By default empty."""
    effect: Effect
    """`NoSchedule`: no new rank without a toleration is placed here. Running ranks continue."""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


def _each_once(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    keys = [(taint.key, taint.effect) for taint in taints]
    twice = [str(taint) for at, taint in enumerate(taints) if keys[at] in keys[:at]]
    if twice:
        raise ValueError(f"{twice[0]}: another taint has this key and effect")
    return taints


Taints = Annotated[tuple[Taint, ...], Field(max_length=64), AfterValidator(_each_once)]


class Toleration(Strict):
    """Permission for a deployment to use nodes with a certain taint. It does not make the deployment prefer them."""

    key: _Key | None = None
    """Key of the tolerated taint. Without a key, `operator: Exists` tolerates every taint."""
    operator: Annotated[Literal["Exists", "Equal"], Field(validate_default=True)] = "Equal"
    """`Equal`: tolerate a taint with this value. `Exists`: tolerate a taint with any value."""
    value: Annotated[_Value, Field(validate_default=True)] = ""
    """Value of the tolerated taint, with `operator: Equal` only. By default empty."""
    effect: Effect | None = None
    """Effect of the tolerated taint. By default every effect."""

    @field_validator("operator")
    @classmethod
    def _of_a_key(cls, operator: str, info: Any) -> str:
        if operator == "Equal" and "key" in info.data and info.data["key"] is None:
            raise ValueError("Equal needs a key; to tolerate every taint, use operator: Exists")
        return operator

    @field_validator("value")
    @classmethod
    def _only_to_compare(cls, value: str, info: Any) -> str:
        if value and info.data.get("operator") == "Exists":
            raise ValueError("Exists takes no value; remove it, or use operator: Equal")
        return value

    def covers(self, taint: Taint) -> bool:
        if self.effect not in (None, taint.effect) or self.key not in (None, taint.key):
            return False
        return self.operator == "Exists" or self.value == taint.value


class Placement(Strict):
    """The nodes that the deployment or job may use."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels that a node must have. By default any node may be used."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=64)] = ()
    """Tolerated taints. Running groups do not move when a toleration is removed."""

    def untolerated(self, taints: Taints) -> Taint | None:
        """Return the first taint that keeps the deployment off a node; None if it tolerates all."""
        return next((t for t in taints if not any(each.covers(t) for each in self.tolerations)), None)
