"""What a revision may remove by itself, and what has to be allowed or approved."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.admission.removals import ALL, hold, removal, serving
from reconciler.state import DeploymentName, Hold, ReplicaId
from reconciler.state.desired import OBJECTS_SHOWN
from reconciler.state.identity import ObjectKey


def keys(count: int) -> list[ObjectKey]:
    return [ObjectKey("Node", f"n{number:03}") for number in range(count)]


def judged(
    revision: str,
    in_force: Collection[ObjectKey],
    incoming: Collection[ObjectKey],
    approved: Collection[str] = (),
    over: str = "",
) -> Hold | None:
    """Of a revision that removes nothing that serves."""
    return hold(revision, removal(in_force, incoming, (), ()), approved, over)


@pytest.mark.parametrize(
    ("in_force", "removed", "held"),
    [
        (0, 0, False),
        (1, 1, True),  # nothing would be left
        (2, 1, False),
        (3, 1, False),
        (3, 2, True),
        (5, 1, False),
        (5, 2, True),
        (10, 3, False),
        (10, 4, True),
        (100, 30, False),
        (100, 31, True),
    ],
)
def test_one_object_or_three_in_ten_go_without_a_question(in_force: int, removed: int, held: bool) -> None:
    now = keys(in_force)
    found = judged("r2", now, now[removed:])
    assert (found is not None) == held
    if found:
        assert found == Hold("r2", tuple(now[:removed]), in_force)


def test_what_is_new_does_not_make_up_for_what_is_gone() -> None:
    new = [ObjectKey("Model", f"m{number}") for number in range(50)]
    assert judged("r2", keys(5), [*keys(3), *new], ()) is not None


def test_an_approval_is_for_one_revision() -> None:
    assert judged("r2", keys(5), [], {"r2"}) is None
    assert judged("r3", keys(5), [], {"r2"}) is not None


@given(st.sets(st.sampled_from(keys(12))), st.sets(st.sampled_from(keys(12))))
def test_nothing_is_held_that_removes_nothing_and_everything_that_leaves_nothing(
    in_force: set[ObjectKey], incoming: set[ObjectKey]
) -> None:
    found = judged("r2", in_force, incoming, ())
    if in_force <= incoming:
        assert found is None
    elif not incoming:
        assert found is not None
    if found is None:
        assert len(in_force - incoming) <= max(1, 0.3 * len(in_force))


def test_a_hold_names_what_would_go_and_the_command() -> None:
    revision, over = (begin + "0" * 30 for begin in ("1f0c2a9b3d", "aa11bb22cc"))
    found = judged(revision, keys(OBJECTS_SHOWN + 3), [], (), over)
    assert found is not None
    assert found.command == "reconciler approve 1f0c2a9b3d"
    assert "it would remove 13 of 13 objects (node/n000, " in found.text
    assert "and 3 more); to remove them: reconciler approve 1f0c2a9b3d;" in found.text
    assert found.text.endswith(
        "; to keep them: put their manifests back, such as with a revert of the commits aa11bb22cc..1f0c2a9b3d"
    )
    folder = judged("dir-1f0c2a9b3d", keys(3), [], (), "dir-aa11bb22cc")
    assert folder is not None
    assert folder.text.endswith("; to keep them: put their manifests back")


TINY, BIG = ObjectKey("ModelDeployment", "tiny"), ObjectKey("ModelDeployment", "big")
GATEWAY = ObjectKey("Gateway", "main")


def test_what_has_a_group_serves_and_a_gateway_that_runs() -> None:
    objects, replicas = [TINY, BIG, GATEWAY], [ReplicaId(DeploymentName("tiny"), 0)]
    assert serving(objects, replicas, gateway=False) == {TINY}
    assert serving(objects, replicas, gateway=True) == {TINY, GATEWAY}


@pytest.mark.parametrize(
    ("said", "unsaid"),
    [
        ((), (BIG, TINY)),
        (("tiny",), (BIG,)),
        (("modeldeployment/tiny", "big"), ()),
        (("ModelDeployment/tiny", "deploy/big"), ()),
        (("model/tiny", "apikey/tiny", "x/tiny", "gateway/big"), (BIG, TINY)),
        ((ALL,), ()),
        (("run/tiny", "run/*", "job/big"), (BIG, TINY)),
    ],
)
def test_what_serves_is_removed_where_each_of_it_is_named_or_all_are(
    said: tuple[str, ...], unsaid: tuple[ObjectKey, ...]
) -> None:
    in_force = [TINY, BIG, *keys(8)]
    assert removal(in_force, keys(8), {TINY, BIG}, said).unsaid == unsaid


def test_what_serves_is_asked_about_whatever_else_goes_and_an_approval_is_for_both() -> None:
    in_force = [TINY, *keys(4)]
    for left in range(5):
        found = removal(in_force, keys(left), {TINY}, ())
        assert found.unsaid == (TINY,)
        assert hold("r2", found, ()) is not None
        assert hold("r2", found, {"r2"}) is None


def test_a_hold_of_what_serves_names_it_and_the_trailer() -> None:
    found = hold("1f0c2a9b3d", removal([TINY, *keys(9)], keys(9), {TINY}, ()), ())
    assert found is not None
    assert found.text == (
        "revision 1f0c2a9b3d is held: it would remove 1 of 10 objects, and no commit allows that for modeldeployment/tiny,"
        " which serves now (Allow-Removal: tiny); to remove them: reconciler approve 1f0c2a9b3d; to keep them: put their"
        " manifests back"
    )
