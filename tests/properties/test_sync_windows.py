"""Sync windows over random commits and times: what a closed window is for never changes, and everything else always does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.admission.judge import InForce
from reconciler.admission.windows import Admitted, admit, closed, refused_operations
from reconciler.resources import Manifest, Model, ModelDeployment
from reconciler.resources.sync_window import SyncWindow
from reconciler.state.held_changes import HeldChange, HeldChanges
from reconciler.state.identity import ObjectKey
from tests.properties.test_operations import operation
from tests.worlds import deployment, gateway, model, node, sync_window

HOUR, DAY = 3600.0, 86_400.0
BEGIN = 1_790_000_000.0
"""A day in September 2026; a week later than a month, clocks change in Europe."""
MODELS = ("m1", "m2")
Manifests = dict[ObjectKey, Manifest]


def some(names: Sequence[str]) -> st.SearchStrategy[list[str]]:
    return st.sets(st.sampled_from(names)).map(sorted)


@st.composite
def windows(draw: st.DrawFn, name: str) -> SyncWindow:
    scope: dict[str, Any] = draw(
        st.sampled_from(
            [{}, {"deployments": ["a"]}, {"deployments": ["b*"]}, {"nodes": ["n1"]}, {"deployments": ["*"]}]
        )
    )
    return sync_window(
        name,
        kind=draw(st.sampled_from(["allow", "deny"])),
        schedule=draw(
            st.sampled_from(["0 8 * * *", "30 2 * * *", "0 22 * * 1-5", "0 */6 * * *", "0 0 1 1 *"])
        ),
        duration=draw(st.sampled_from(["1h", "9h", "30h"])),
        timeZone=draw(st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"])),
        operations=draw(st.sampled_from([[], ["cordon"]])),
        **scope,
    )


@st.composite
def clusters(draw: st.DrawFn) -> Manifests:
    made: list[Manifest] = (
        [gateway(listen=f"127.0.0.1:{draw(st.integers(8400, 8401))}")] if draw(st.booleans()) else []
    )
    for name in draw(some(["a", "b1", "b2"])):
        aliases = ["alias"] if draw(st.booleans()) and not _taken(made) else []
        made.append(
            deployment(
                name,
                model=draw(st.sampled_from(MODELS)),
                replicas=draw(st.integers(1, 2)),
                serving={"aliases": aliases},
            )
        )
    made += [node(name, unschedulable=draw(st.booleans())) for name in draw(some(["n1", "n2"]))]
    made += [model(name, draw(st.sampled_from(["x", "y"]))) for name in draw(some(MODELS))]
    made += [draw(windows(name)) for name in draw(some(["w1", "w2", "w3"]))]
    return by_key(made)


def _taken(made: list[Manifest]) -> bool:
    return any(isinstance(each, ModelDeployment) and each.spec.serving.aliases for each in made)


def by_key(manifests: Any) -> Manifests:
    return {ObjectKey.of(each): each for each in manifests}


def after(incoming: Manifests, admitted: Admitted) -> Manifests:
    return dict(InForce.of("r", incoming, admitted.kept).manifests)


def about(found: Manifests, key: ObjectKey) -> list[SyncWindow]:
    """The windows in force that are for an object in force, as a person would find them."""
    object = found[key]
    users = [
        each for each in found.values() if isinstance(each, ModelDeployment) and each.spec.model == key.name
    ]
    named = [object, *(users if isinstance(object, Model) else [])]
    own = [each for each in found.values() if isinstance(each, SyncWindow)]
    return [each for each in own if each is object or any(each.spec.names(one) for one in named)]


moments = st.floats(BEGIN, BEGIN + 400 * DAY, allow_nan=False)
overrides = st.frozensets(st.sampled_from(["w1", "w2", "w3"]))


@given(clusters(), clusters(), moments, overrides)
def test_a_closed_window_keeps_its_objects_and_nothing_else(
    before: Manifests, incoming: Manifests, now: float, overridden: frozenset[str]
) -> None:
    admitted = admit("r", before, incoming, overridden, now)
    found = after(incoming, admitted)
    for key in before:
        if closed(about(before, key), overridden, now) is not None:
            assert found.get(key) == before[key], "neither changed nor removed"
    held = {change.object for change in admitted.held.changes} if admitted.held is not None else set()
    assert held == admitted.kept.keys()
    for key in {*before, *incoming}:
        assert found.get(key) == (before if key in held else incoming).get(key), (
            "one or the other, as a whole"
        )
    assert all(before.get(key) != incoming.get(key) for key in held), "what is the same is not held"


@given(clusters(), clusters(), moments, overrides)
def test_no_name_of_a_client_has_two_deployments(
    before: Manifests, incoming: Manifests, now: float, overridden: frozenset[str]
) -> None:
    admitted = admit("r", before, incoming, overridden, now)
    served = [
        name
        for each in after(incoming, admitted).values()
        if isinstance(each, ModelDeployment)
        for name in (each.metadata.name, *each.spec.serving.aliases)
    ]
    assert len(served) == len(set(served))


@given(clusters(), clusters(), moments)
def test_at_the_ends_that_are_named_all_of_it_comes_in(
    before: Manifests, incoming: Manifests, now: float
) -> None:
    in_force, moment = before, now
    for _ in range(20):
        admitted = admit("r", in_force, incoming, (), moment)
        in_force = after(incoming, admitted)
        if admitted.held is None:
            assert in_force == incoming
            return
        ends = [change.until for change in admitted.held.changes if change.until is not None]
        if not ends:
            return
        assert min(ends) > moment, "time goes on"
        moment = min(ends)


@given(
    st.lists(st.sampled_from(["w1", "w2", "w3"]).flatmap(windows), unique_by=lambda each: each.metadata.name),
    moments,
)
def test_a_window_closes_until_the_moment_that_it_names_and_not_longer(
    found: list[SyncWindow], now: float
) -> None:
    names, until = closed(found, frozenset(), now) or ((), None)
    assert closed(found, frozenset(names), now) is None, (
        "who overrides those that are named has no other in the way"
    )
    if until is None:
        return
    assert {*names} <= {each.metadata.name for each in found}
    assert until > now
    assert closed(found, frozenset(), until) is None
    for part in (0.1, 0.5, 0.9, 0.999):
        earlier = now + (until - now) * part
        assert closed(found, frozenset(), earlier) is not None


@given(
    windows("w"),
    st.sampled_from([1_774_746_000, 1_775_313_000, 1_791_041_400, 1_792_890_000]),
    st.integers(-100_000, 100_000),
    st.integers(0, 90_000),
)
def test_the_next_beginning_is_the_same_from_wherever_it_is_looked_for(
    window: SyncWindow, clocks_change: int, before: int, later: int
) -> None:
    """Around the moments at which clocks change in Europe and on Lord Howe Island."""
    moment = float(clocks_change + before)
    begins = window.spec.next_begin(moment)
    assert begins > moment
    if begins > moment + later:
        assert window.spec.next_begin(moment + later) == begins


@given(clusters(), moments, overrides)
def test_an_operation_is_refused_by_closed_windows_that_name_it_and_by_no_others(
    found: Manifests, now: float, overridden: frozenset[str]
) -> None:
    for name in ("n1", "n2"):
        key = ObjectKey("Node", name)
        mine = [each for each in about(found, key) if each.spec.operations] if key in found else []
        refused = closed(mine, overridden, now) is not None
        asked = [operation("cordon", "Node", name)]
        assert bool(refused_operations(found, asked, overridden, now)) == refused
        assert not refused_operations(found, [operation("drain", "Node", name)], overridden, now)


@given(clusters(), clusters(), moments)
def test_who_overrides_all_windows_has_none(before: Manifests, incoming: Manifests, now: float) -> None:
    admitted = admit("r", before, incoming, ("w1", "w2", "w3"), now)
    assert (admitted.held, after(incoming, admitted)) == (None, incoming)


def test_a_change_that_two_windows_hold_names_both_and_the_command_for_both() -> None:
    always = {"schedule": "* * * * *", "duration": "1h"}
    both = sync_window("w1", **always), sync_window("w2", **always)
    answer = closed(both, frozenset(), BEGIN)
    assert answer is not None
    held = HeldChange(ObjectKey("ModelDeployment", "a"), *answer)
    for text in (held.text, HeldChanges("r", (held,)).text):
        assert "held by sync windows w1 and w2" in text
        assert text.endswith(": reconciler override w1 w2 --reason WHY")


def test_an_override_is_for_its_window_alone() -> None:
    always = {"schedule": "* * * * *", "duration": "1h"}
    both = sync_window("w1", **always), sync_window("w2", **always)
    for overridden, holding in (("w1", "w2"), ("w2", "w1")):
        answer = closed(both, frozenset({overridden}), BEGIN)
        assert answer is not None
        assert answer[0] == (holding,)
    open_anyhow = sync_window("w3", kind="allow", **always)
    assert closed((open_anyhow,), frozenset(), BEGIN) is None
