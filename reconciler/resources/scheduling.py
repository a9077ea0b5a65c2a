"""Which nodes a deployment may use: taints of nodes, and what deployments ask for, in kubectl's words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from .base import Strict

_Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?$")]
_Value = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
Effect = Literal["NoSchedule"]


class Taint(Strict):
    """Keeps off every deployment that does not tolerate it."""

    key: _Key
    """What it is about, such as `dedicated`."""
    value: _Value = ""
    """Such as the name of a team."""
    effect: Effect
    """`NoSchedule`: nothing new is placed here without a toleration; what runs goes on."""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


def _each_once(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    keys = [(taint.key, taint.effect) for taint in taints]
    twice = [str(taint) for at, taint in enumerate(taints) if keys[at] in keys[:at]]
    if twice:
        raise ValueError(f"{twice[0]}: there is another taint with this key and effect")
    return taints


Taints = Annotated[tuple[Taint, ...], Field(max_length=64), AfterValidator(_each_once)]


class Toleration(Strict):
    """Lets a deployment use nodes in spite of a taint; it draws it to none."""

    key: _Key | None = None
    """Of the taint. Without one, and with `operator: Exists`, every taint is tolerated."""
    operator: Annotated[Literal["Exists", "Equal"], Field(validate_default=True)] = "Equal"
    """`Equal`: the taint has this value. `Exists`: whatever its value."""
    value: Annotated[_Value, Field(validate_default=True)] = ""
    """With `operator: Equal`."""
    effect: Effect | None = None
    """Of the taint; every effect where there is none."""

    @field_validator("operator")
    @classmethod
    def _of_a_key(cls, operator: str, info: Any) -> str:
        if operator == "Equal" and "key" in info.data and info.data["key"] is None:
            raise ValueError("Equal needs a key; to tolerate every taint: operator: Exists")
        return operator

    @field_validator("value")
    @classmethod
    def _only_to_compare(cls, value: str, info: Any) -> str:
        if value and info.data.get("operator") == "Exists":
            raise ValueError("Exists takes no value; leave it out, or use operator: Equal")
        return value

    def covers(self, taint: Taint) -> bool:
        """Whether it lets a deployment use a node that has this taint."""
        if self.effect not in (None, taint.effect) or self.key not in (None, taint.key):
            return False
        return self.operator == "Exists" or self.value == taint.value


class Placement(Strict):
    """Which nodes are considered."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=64)] = ()
    """Taints in spite of which nodes are considered. What runs does not move when one is taken away."""

    def untolerated(self, taints: Taints) -> Taint | None:
        """The first of a node's taints that keeps the deployment off it."""
        return next((t for t in taints if not any(each.covers(t) for each in self.tolerations)), None)
