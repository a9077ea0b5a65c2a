"""The kind Operation: something that a person does to the running cluster for a while, in addition to the manifests.

Operations are files of the branch ``operations``, one for each verb and target. They are not manifests: none may be in
``main``, and ``registry.SPECS`` has no row for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    field_validator,
)

from .base import OPERATION_NAME, TARGET_NAME, TYPE, Manifest, Metadata, Strict
from .deployment import REPLICAS_MAX
from .verbs import CLUSTER_KIND, REVISION_KIND, VERBS

KIND = "Operation"
CLUSTER_NAME = "main"
REASON_MAX = 1000
_REVISION = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?|empty")
if TYPE_CHECKING:
    Verb = str
else:
    Verb = Literal[tuple(VERBS)]


def _parse_moment(value: Any) -> Any:
    try:
        parsed = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise ValueError('expected a time with its zone, such as "2026-11-21T10:00:00Z"')
    return parsed.timestamp()


def written_moment(at: float) -> str:
    """Return a time as RFC 3339 in UTC, with milliseconds where it has some."""
    precision = "seconds" if float(at).is_integer() else "milliseconds"
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=precision).replace("+00:00", "Z")


Moment = Annotated[
    float,
    BeforeValidator(_parse_moment),
    PlainSerializer(written_moment, return_type=str),
    WithJsonSchema({"type": "string", TYPE: "time", "format": "date-time"}),
]
"""A time in seconds since the Unix epoch, written as RFC 3339."""


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected one line of text")
    return text


class Target(Strict):
    """The object of an operation."""

    kind: Literal["Node", "Model", "ModelDeployment", "Job", "SyncWindow", "Cluster", "Revision"]
    """Kind of the object; `Cluster` for everything, whose name is `main`; `Revision` for a commit of `main`."""
    name: Annotated[str, TARGET_NAME.field()]
    """Name of the object, or the full id of the commit."""

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


class OperationMetadata(Metadata):
    """The name and labels of an operation."""

    name: Annotated[str, OPERATION_NAME.field()]
    """`VERB.KIND.NAME`, so that there is one for each verb and target. The file has this name, with `.yaml`."""


class OperationSpec(Strict):
    """The verb and its target, the person who asked, the times and the reason."""

    verb: Verb
    """Action. For a Node: `cordon`, `drain`, `reboot`. For a ModelDeployment: `restart`, `scale`, `pause`, `resume`.
    For a Job: `restart`, `cancel`. For any of these, a Model or the Cluster: `suspend`. For the Cluster: `stop`. For a held Revision: `approve`. For a
    SyncWindow: `override`, which lets all changes in meanwhile."""
    target: Target
    by: Annotated[str, StringConstraints(min_length=1, max_length=320), AfterValidator(_one_line)]
    """Person who asked for it, as git writes authors."""
    at: Moment
    """Time at which it was asked for."""
    reason: Annotated[str, Field(max_length=REASON_MAX, validate_default=True)] = ""
    """Reason, for people. `override` needs one."""
    until: Annotated[Moment | None, Field(validate_default=True)] = None
    """Time at which it ends by itself. Unset: it lasts until somebody undoes it. `override` needs one."""
    replicas: Annotated[int | None, Field(ge=0, le=REPLICAS_MAX, validate_default=True)] = None
    """`scale`: the number of replicas, instead of the manifest's."""
    run: Annotated[int | None, Field(ge=1, validate_default=True)] = None
    """`cancel`: the number of the run that ends, with all earlier ones."""
    boot: Annotated[str | None, Field(min_length=1, max_length=128, validate_default=True)] = None
    """`reboot`: id of the boot that should end."""
    over: Annotated[str | None, Field(min_length=1, max_length=64, validate_default=True)] = None
    """`approve`: the revision that was in force then. The approval covers the removals and jobs compared with it."""
    manifest: Annotated[dict[str, Any] | None, Field(validate_default=True)] = None
    """`suspend` of an object: the manifest that stays in force for it."""

    @property
    def written_at(self) -> str:
        """Return the time at which it was asked for, as RFC 3339."""
        return written_moment(self.at)

    @field_validator("target")
    @classmethod
    def _fitting(cls, value: Target, info: Any) -> Target:
        verb = info.data.get("verb")
        if verb is None:
            return value
        kinds = VERBS[verb].kinds
        if value.kind not in kinds:
            raise ValueError(f"{verb} is for {' and '.join(kinds)}, and not for {value.kind}")
        if value.kind == CLUSTER_KIND and value.name != CLUSTER_NAME:
            raise ValueError(f'the name of the Cluster is "{CLUSTER_NAME}"')
        if value.kind == REVISION_KIND and not _REVISION.fullmatch(value.name):
            raise ValueError(f"expected the full id of a commit as the name, got {value.name}")
        return value

    @field_validator("until")
    @classmethod
    def _later(cls, value: float | None, info: Any) -> float | None:
        if value is not None and value <= info.data.get("at", 0.0):
            raise ValueError('"until" must be later than "at"')
        return value

    @field_validator("reason", "until")
    @classmethod
    def _explained(cls, value: Any, info: Any) -> Any:
        verb = info.data.get("verb")
        if verb is not None and VERBS[verb].explained and not value:
            raise ValueError(f'{verb} needs "{info.field_name}"')
        return value

    @field_validator("replicas", "run", "boot", "over", "manifest")
    @classmethod
    def _needed(cls, value: Any, info: Any) -> Any:
        verb, target = info.data.get("verb"), info.data.get("target")
        if verb is None or target is None:
            return value
        needed = VERBS[verb].value == info.field_name and target.kind != CLUSTER_KIND
        if needed and value is None:
            raise ValueError(f'{verb} of {target} needs "{info.field_name}"')
        if value is not None and not needed:
            raise ValueError(f'{verb} of {target} takes no "{info.field_name}"')
        if value is not None and info.field_name == "manifest":
            _frozen(value, target)
        return value


class Operation(Manifest):
    """Something that a person does to the running cluster, in a file of the branch `operations`."""

    kind: Literal["Operation"]
    metadata: OperationMetadata
    spec: OperationSpec

    @property
    def who(self) -> str:
        """Return the name of the person who asked for it, without the address."""
        return self.spec.by.partition(" <")[0]

    @property
    def frozen(self) -> Manifest | None:
        """Return the manifest that stays in force for a suspended object."""
        return None if self.spec.manifest is None else _frozen(self.spec.manifest, self.spec.target)


def operation_name(verb: str, kind: str, name: str) -> str:
    return f"{verb}.{kind.lower()}.{name}"


def _frozen(body: Mapping[str, Any], target: Target) -> Manifest:
    """Return the manifest of a suspended object. Raises ``ValueError`` if it is invalid, or another object's."""
    from .kinds import KINDS

    try:
        manifest = KINDS[target.kind].model_validate_json(json.dumps(body))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"not a valid manifest of {target}: {place}: {first['msg']}") from None
    if (manifest.kind, manifest.metadata.name) != (target.kind, target.name):
        raise ValueError(f"expected the manifest of {target}")
    return manifest
