"""Operations laid over random manifests: what they name changes as they say, and nothing else ever does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.admission.overlay import overlay
from reconciler.resources import Manifest, ModelDeployment, Node
from reconciler.resources.operation import Operation, operation_name
from reconciler.resources.verbs import VERBS
from reconciler.source.operations import file_of, load_operations, text_of
from reconciler.state.operations import Standing
from tests.worlds import deployment, job, model, node, sync_window

NOW = 1_000_000.0
NAMES = ("a", "b", "c")
AT = "1970-01-02T00:00:00Z"
ENDS = {"over": "1970-01-03T00:00:00Z", "ahead": "1970-12-01T00:00:00Z"}

OF_OBJECTS = [
    (verb, kind) for verb in VERBS for kind in VERBS[verb].kinds if kind not in ("Cluster", "Revision")
]


def operation(verb: str, kind: str, name: str, **fields: Any) -> Operation:
    """An operation as its file would have it."""
    spec = {
        "verb": verb,
        "target": {"kind": kind, "name": name},
        "by": "Ada <a@example.org>",
        "at": AT,
        **fields,
    }
    body = {"apiVersion": "reconciler/v1alpha1", "kind": "Operation", "spec": spec}
    return Operation.model_validate({**body, "metadata": {"name": operation_name(verb, kind, name)}})


def made(kind: str, name: str) -> Manifest:
    makers: dict[str, Callable[[str], Manifest]] = {
        "Node": node,
        "Model": model,
        "ModelDeployment": deployment,
        "SyncWindow": sync_window,
        "Job": job,
    }
    return makers[kind](name)


@st.composite
def operations(draw: st.DrawFn) -> Operation:
    verb, kind = draw(st.sampled_from(OF_OBJECTS))
    name = draw(st.sampled_from(NAMES))
    values: dict[str, dict[str, Any]] = {
        "scale": {"replicas": draw(st.integers(0, 5))},
        "cancel": {"run": draw(st.integers(1, 5))},
        "reboot": {"boot": draw(st.sampled_from(["one", "two"]))},
        "suspend": {"manifest": made(kind, name).model_dump(mode="json", by_alias=True, exclude_unset=True)},
        "override": {"reason": "incident 12"},
    }
    end = draw(st.sampled_from([*([] if VERBS[verb].explained else [None]), *ENDS.values()]))
    return operation(verb, kind, name, **values.get(verb, {}), **({"until": end} if end else {}))


@st.composite
def sets_of_operations(draw: st.DrawFn) -> list[Operation]:
    found = {each.metadata.name: each for each in draw(st.lists(operations(), max_size=8))}
    return list(found.values())


@st.composite
def clusters(draw: st.DrawFn) -> list[Manifest]:
    kinds = ("Node", "Model", "ModelDeployment", "Job")
    keys = draw(st.sets(st.tuples(st.sampled_from(kinds), st.sampled_from(NAMES))))
    return [made(kind, name) for kind, name in sorted(keys)]


def by_key(manifests: Sequence[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(each.kind, each.metadata.name): each for each in manifests}


@given(clusters(), sets_of_operations())
def test_objects_that_no_operation_names_are_the_same_objects(
    manifests: list[Manifest], said: list[Operation]
) -> None:
    named = {(each.spec.target.kind, each.spec.target.name) for each in said}
    after = by_key(overlay(manifests, said, NOW).manifests)
    for key, manifest in by_key(manifests).items():
        assert key in named or after[key] is manifest
    suspended = {(o.spec.target.kind, o.spec.target.name) for o in said if o.spec.verb == "suspend"}
    assert after.keys() - by_key(manifests).keys() <= suspended, (
        "only what is suspended outlives its manifest"
    )


@given(clusters(), sets_of_operations())
def test_laying_and_undoing_is_the_identity(manifests: list[Manifest], said: list[Operation]) -> None:
    before = [each.model_dump_json() for each in manifests]
    overlay(manifests, said, NOW)
    undone = overlay(manifests, (), NOW)
    assert [each.model_dump_json() for each in undone.manifests] == before
    assert all(after is manifest for after, manifest in zip(undone.manifests, manifests, strict=True))


@given(clusters(), sets_of_operations())
def test_what_has_expired_is_as_if_it_had_been_undone(
    manifests: list[Manifest], said: list[Operation]
) -> None:
    active = [each for each in said if each.spec.until is None or each.spec.until > NOW]
    before, after = overlay(manifests, said, NOW), overlay(manifests, active, NOW)
    assert before.manifests == after.manifests
    expired = {
        effect.operation.metadata.name for effect in before.effects if effect.standing is Standing.EXPIRED
    }
    assert expired == {each.metadata.name for each in said} - {each.metadata.name for each in active}


@given(clusters(), sets_of_operations(), st.randoms())
def test_the_order_of_the_files_means_nothing_and_laying_twice_changes_nothing(
    manifests: list[Manifest], said: list[Operation], random: Any
) -> None:
    once = overlay(manifests, said, NOW)
    shuffled = list(said)
    random.shuffle(shuffled)
    assert overlay(manifests, shuffled, NOW) == once
    assert overlay(once.manifests, said, NOW).manifests == once.manifests


@given(clusters(), sets_of_operations())
def test_a_stop_drains_every_node_and_nothing_else(manifests: list[Manifest], said: list[Operation]) -> None:
    stop = operation("stop", "Cluster", "main")
    before = by_key(overlay(manifests, said, NOW).manifests)
    after = by_key(overlay(manifests, [*said, stop], NOW).manifests)
    assert after.keys() == before.keys()
    for key, manifest in after.items():
        if isinstance(manifest, Node):
            assert manifest.spec.drain
        else:
            assert manifest == before[key]


@given(sets_of_operations())
def test_what_is_written_is_read_again(said: list[Operation]) -> None:
    files = {file_of(each.metadata.name): text_of(each) for each in said}
    assert sorted(load_operations(files), key=str) == sorted(said, key=str)


def test_scaling_a_deployment_changes_the_number_of_its_replicas_alone() -> None:
    wish = deployment("a")
    (found,) = overlay([wish], [operation("scale", "ModelDeployment", "a", replicas=3)], NOW).manifests
    assert isinstance(found, ModelDeployment)
    assert found.spec.replicas == 3
    assert found.spec.model_copy(update={"replicas": wish.spec.replicas}) == wish.spec
