"""The changes that each verb makes to the present operations, for chosen objects. Pure; imports kinds when called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reconciler.errors import Invalid, Refused
from reconciler.resources.verbs import KEEPS_OFF, VERBS
from reconciler.wire import answers

from .change import Change, Files, Key, Now, results

if TYPE_CHECKING:
    from reconciler.resources import Manifest
    from reconciler.source.editing import Edit

CLUSTER = ("Cluster", "main")
UNSCHEDULABLE, DRAIN = ("spec", "unschedulable"), ("spec", "drain")
PREFIX_CHARACTERS_MIN = 4
MANIFESTS_SAY = "main says how many there are"
"""Why a scaling for a while is ended by one for good."""

Values = dict[tuple[str, ...], Any]


def begin(
    now: Now,
    verb: str,
    keys: Iterable[Key],
    values: Callable[[Key], Mapping[str, Any]] = lambda _: {},
    title: str = "",
    at: float | None = None,
) -> Change:
    """Begin an operation on those of the objects that have no such operation yet.

    ``values``: the fields that the verb needs; ``title``: the verb of the commit's subject, if it has another one. With ``at``, the
    time of the request, it begins again on all of them.
    """
    made = {key: now.operation(verb, key, at, **values(key)) for key in keys}
    new = {key: each for key, each in made.items() if at or not now.asked(each)}
    return Change(
        title or verb.capitalize(), results(made, new), {each.metadata.name: each for each in new.values()}
    )


def present(now: Now, verb: str, keys: Iterable[Key]) -> dict[Key, str]:
    """Return the names of the operations of a verb that are in force, of these objects."""
    from reconciler.resources.operation import operation_name

    return {key: name for key in keys if (name := operation_name(verb, *key)) in now.operations}


def end(now: Now, verb: str, keys: Iterable[Key]) -> Change:
    """End operations that hide what the manifests say now."""
    ended = present(now, verb, keys)
    said = "scaling" if verb == "scale" else verb
    return Change(f"End the {said} of", results(ended, ended), dict.fromkeys(ended.values()))


def uncordon(now: Now, keys: Sequence[Key]) -> Change:
    """Use nodes again: end the operations that keep ranks off them. ``kept_off`` has the nodes whose manifests do
    so."""
    undone = [present(now, verb, keys) for verb in KEEPS_OFF]
    changed = {*kept_off(now.files, keys)}.union(*undone)
    names = [name for found in undone for name in found.values()]
    return Change("Uncordon", results(keys, changed), dict.fromkeys(names))


def kept_off(files: Files, keys: Sequence[Key]) -> dict[Key, Values]:
    """Return, for the nodes whose manifests keep ranks off them, the fields to take back."""
    from reconciler.resources import Node
    from reconciler.source.yaml.documents import all_of
    from reconciler.source.yaml.fields import REMOVED

    nodes = all_of(files, Node)
    wished = {name for name, node in nodes.items() if node.spec.unschedulable or node.spec.drain}
    return {key: {UNSCHEDULABLE: REMOVED, DRAIN: REMOVED} for key in keys if key[1] in wished}


def kept_off_by_mirror(keys: Sequence[Key], url: str) -> Refused:
    """Return the refusal to change manifests that keep ranks off nodes, because ``main`` is a mirror of ``url``."""
    from reconciler.source.git.repository import mirror_text

    names = ", ".join(f"{kind.lower()}/{name}" for kind, name in keys)
    one = f"the manifest of {names} keeps ranks off it"
    return Refused(
        "Mirrored",
        f"{one if len(keys) == 1 else f'the manifests of {names} keep ranks off them'}, and {mirror_text(url)}",
    )


def replicas_of(text: str) -> int:
    """Return the number of replicas that somebody typed. Raises ``Invalid``."""
    from reconciler.resources.deployment import REPLICAS_MAX

    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else -1
    if not 0 <= number <= REPLICAS_MAX:
        raise Invalid(f"expected a number of replicas from 0 to {REPLICAS_MAX}, got {text!r}")
    return number


def cancel(now: Now, runs: Mapping[Key, int]) -> Change:
    """End the runs of jobs up to these numbers."""
    return begin(now, "cancel", runs, lambda key: {"run": runs[key]})


def scale(now: Now, keys: Iterable[Key], replicas: int) -> Change:
    """Give deployments another number of replicas for a while: the manifests keep theirs."""
    return begin(now, "scale", keys, lambda _: {"replicas": replicas}, f"Scale to {replicas}")


def scale_for_good(files: Files, keys: Iterable[Key], replicas: int) -> Edit:
    """Give deployments another number of replicas in their manifests; ``end`` ends what would go on hiding it."""
    from reconciler.source.editing import set_fields

    return set_fields(files, {key: {("spec", "replicas"): replicas} for key in keys})


def undo(now: Now, names: Iterable[str]) -> Change:
    """End operations by their names. Raises ``Refused`` for one that is not in force."""
    chosen = [name.removeprefix("operation/") for name in names]
    unknown = [name for name in chosen if name not in now.operations]
    if unknown:
        known = ", ".join(sorted(now.operations)) or "there are none"
        raise Refused("NotFound", f"no operation {', '.join(unknown)} is in force; known: {known}")
    keys = [("Operation", name) for name in chosen]
    return Change("Undo", results(keys, keys), dict.fromkeys(chosen))


def suspend(now: Now, frozen: Mapping[Key, Mapping[str, Any]]) -> Change:
    """Keep changes out of objects, or with ``CLUSTER`` out of everything. ``frozen`` has their manifests in force."""
    return begin(now, "suspend", frozen, lambda key: {} if key == CLUSTER else {"manifest": frozen[key]})


def frozen(there: Mapping[Key, Manifest], keys: Iterable[Key]) -> dict[Key, dict[str, Any]]:
    """Return the manifests in force that ``suspend`` keeps. Raises ``Refused`` for an object that cannot be suspended
    alone."""
    kinds = VERBS["suspend"].kinds
    chosen = tuple(keys)
    for kind, name in chosen:
        if kind not in kinds:
            known = ", ".join(each.lower() for each in kinds if each != CLUSTER[0])
            raise Refused(
                "NotSuspendable",
                f"{kind.lower()}/{name} cannot be suspended alone, only a {known} can; all of main: --all",
            )
    return {key: there[key].model_dump(mode="json", by_alias=True, exclude_unset=True) for key in chosen}


def resume(now: Now, keys: Sequence[Key]) -> Change:
    """Let changes in again. Raises ``Refused`` for an object that is not suspended."""
    names = present(now, "suspend", keys)
    unknown = [key for key in keys if key not in names]
    if unknown:
        text = ", ".join(f"{kind.lower()}/{name}" for kind, name in unknown)
        raise Refused(
            "NotSuspended", f"{text} is not suspended; list what is with: reconciler get operations"
        )
    return Change("Resume", results(keys, keys), dict.fromkeys(names.values()))


def held(status: Mapping[str, Any], operations: Iterable[str], prefix: str) -> tuple[str, bool]:
    """Return the revision that ``prefix`` means, and whether it was approved before.

    ``status``: the controller's answer to ``ShowStatus``; ``operations``: the names of those in force. Raises ``Refused`` if
    it is not held.
    """
    found, newest = status["held"], status["revision"]
    enough = len(prefix) >= PREFIX_CHARACTERS_MIN
    if enough and found and found["revision"].startswith(prefix):
        return str(found["revision"]), False
    if enough and newest.startswith(prefix) and f"approve.revision.{newest}" in operations:
        return str(newest), True
    if found is None:
        raise Refused(
            "NotHeld",
            f"no revision is held, and no approved revision in force begins with {prefix!r}; see: reconciler plan",
        )
    raise Refused(
        "NotHeld",
        f"expected the held revision, with at least {PREFIX_CHARACTERS_MIN} characters, got {prefix!r}:"
        f" {found['command']}",
    )


def approve(now: Now, revision: str, over: str) -> Change:
    """Let a held revision come into force instead of ``over``."""
    return begin(now, "approve", [("Revision", revision)], lambda _: {"over": over})


def moves(replicas: Iterable[answers.FutureReplica], nodes: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the fate of every group on these nodes, a line each: of groups that continue, and of groups that have to
    end."""
    names = set(nodes)
    go_on, ending = [], []
    for entry in replicas:
        if not set(entry["nodes"]) & names:
            continue
        who = f"{entry['object']}, replica {entry['replica']}"
        if entry["moves"]:
            go_on.append(f"{who}: moves from {', '.join(entry['nodes'])} to {', '.join(entry['moves'])}")
        elif entry["ends"]:
            ending.append(f"{who}: {entry['text']}")
        else:
            go_on.append(f"{who}: {entry['text'] or 'is ending'}")
    return go_on, ending


def would_stop(names: Iterable[str], ending: Iterable[str]) -> Refused:
    """Return why nodes cannot be drained without force."""
    return Refused(
        "WouldStop",
        "cannot drain: these would stop being served:\n  "
        + "\n  ".join(ending)
        + f"\nto stop them anyway: reconciler drain {' '.join(names)} --force",
    )
