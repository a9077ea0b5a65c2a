"""The input of a decision, its changes, and the commit's message. Pure; imports kinds only when called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reconciler.errors import Invalid, Refused

if TYPE_CHECKING:
    from reconciler.resources.operation import Operation

Key = tuple[str, str]
Files = Mapping[str, bytes]

REASON_IN_SUBJECT_MAX = 60
OBJECTS_IN_SUBJECT_MAX = 5


@dataclass(frozen=True, slots=True)
class Asking:
    """The author of a request, its reason, and its end."""

    by: str
    """As git writes authors: ``Ada <ada@example.org>``."""
    reason: str = ""
    until: float | None = None
    """The time when the operation ends by itself, in seconds since the Unix epoch."""


@dataclass(frozen=True, slots=True)
class Change:
    """Operations to write (None undoes one), by name, and the result for each object."""

    title: str
    """A verb for the commit's subject."""
    results: tuple[Any, ...]
    operations: Mapping[str, Operation | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Now:
    """The input of a decision."""

    files: Files
    """The manifests of ``main``."""
    operation_files: Files
    operations: Mapping[str, Operation]
    """Operations that have not expired, by name."""
    ended: frozenset[str]
    """The names of expired operations."""
    asking: Asking
    at: float
    """In seconds since the Unix epoch."""

    def operation(self, verb: str, key: Key, at: float | None = None, **values: Any) -> Operation:
        """Return a new operation with the requested author, reason and end. Raises ``Invalid``, for instance if the
        reason is too long."""
        from pydantic import ValidationError

        from reconciler.resources import API_VERSION
        from reconciler.resources.operation import KIND, Operation, operation_name, written_moment

        ends = {} if self.asking.until is None else {"until": written_moment(self.asking.until)}
        spec = {
            "verb": verb,
            "target": {"kind": key[0], "name": key[1]},
            "by": self.asking.by,
            "at": written_moment(at or self.at),
            "reason": self.asking.reason,
            **ends,
            **values,
        }
        name = operation_name(verb, *key)
        try:
            return Operation.model_validate(
                {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise Invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    def asked(self, operation: Operation) -> bool:
        """Return whether the same operation is present. A request without reason and end keeps the earlier ones, and a
        suspended object the manifest that it has."""
        before = self.operations.get(operation.metadata.name)
        if before is None:
            return False
        kept = {"by": before.spec.by, "at": before.spec.at, "manifest": before.spec.manifest}
        kept |= {} if self.asking.reason else {"reason": before.spec.reason}
        kept |= {} if self.asking.until else {"until": before.spec.until}
        return before.spec == operation.spec.model_copy(update=kept)

    def changes(self, change: Change) -> dict[str, bytes | None]:
        """Return the files that a change writes; None removes one."""
        from reconciler.source.operations import file_of, text_of

        written = {name: None if made is None else text_of(made) for name, made in change.operations.items()}
        return {file_of(name): text for name, text in {**dict.fromkeys(self.ended), **written}.items()}

    def after(self, change: Change) -> dict[str, bytes]:
        """Return the files of all operations after a change."""
        after = {**self.operation_files, **self.changes(change)}
        return {name: text for name, text in after.items() if text is not None}


Decide = Callable[[Now], Change]
"""A decision, which is made again after a concurrent commit. Raises ``Refused``."""


def now_of(files: Files, operation_files: Files, asking: Asking, at: float) -> Now:
    """Return the input of a decision at a time, in seconds since the Unix epoch."""
    from reconciler.source.operations import load_operations

    every = load_operations(operation_files)
    ended = frozenset(o.metadata.name for o in every if o.spec.until is not None and o.spec.until <= at)
    here = {o.metadata.name: o for o in every if o.metadata.name not in ended}
    return Now(files, operation_files, here, ended, asking, float(int(at)))


def ask_windows(now: Now, change: Change) -> None:
    """Raise ``Refused`` if a sync window of the manifests keeps out an operation that would begin."""
    if not any(b"SyncWindow" in text for text in now.files.values()):
        return  # reading all manifests takes a while
    from reconciler.admission.windows import refused_operations
    from reconciler.source.yaml.documents import load
    from reconciler.state.identity import ObjectKey
    from reconciler.state.operations import Operations

    manifests = {ObjectKey(*document.key): document.manifest for document in load(now.files)}
    overridden = Operations("", tuple(now.operations.values())).overridden(now.at)
    begun = [each for each in change.operations.values() if each is not None]
    if refused := refused_operations(manifests, begun, overridden, now.at):
        raise Refused("HeldBySyncWindow", "; ".join(refused))


def message_of(now: Now, change: Change) -> str:
    """Return a commit message: verb, objects and reason, then the end, and the expired operations."""
    from reconciler.resources.operation import written_moment

    asking = now.asking
    title = titled(change.title, change.results).strip()
    short = "\n" not in asking.reason and len(asking.reason) <= REASON_IN_SUBJECT_MAX
    lines = [f"{title}: {asking.reason}" if asking.reason and short else title]
    if asking.reason and not short:
        lines.append(asking.reason)
    if asking.until is not None:
        lines.append(f"Until: {written_moment(asking.until)}")
    if now.ended - change.operations.keys():
        lines.append(f"Expired: {', '.join(sorted(now.ended - change.operations.keys()))}")
    return "\n\n".join(lines) + "\n"


def titled(verb: str, results: Iterable[Any]) -> str:
    """Return the subject of a commit: the verb and the changed objects."""
    named = [f"{each.kind.lower()}/{each.name}" for each in results if each.action != "unchanged"]
    more = " and more" if len(named) > OBJECTS_IN_SUBJECT_MAX else ""
    return f"{verb} {', '.join(named[:OBJECTS_IN_SUBJECT_MAX])}{more}"


def results(keys: Iterable[Key], changed: Iterable[Key]) -> tuple[Any, ...]:
    from reconciler.source.editing import Result

    those = set(changed)
    return tuple(Result(*key, "configured" if key in those else "unchanged") for key in keys)
