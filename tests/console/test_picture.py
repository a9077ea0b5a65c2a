"""The picture of the cabling: whatever is cabled how, nothing covers anything else."""

from __future__ import annotations

from itertools import combinations

import pytest

from reconciler.console.view.cabling import cablings
from reconciler.console.view.picture import Box, layout

from .snapshots import recorded


def mesh(count: int) -> list[tuple[int, int]]:
    return list(combinations(range(count), 2))


def ring(count: int) -> list[tuple[int, int]]:
    return [(one, (one + 1) % count) for one in range(count if count > 2 else 1)]


@pytest.mark.parametrize(
    "pairs", [*map(mesh, range(2, 8)), *map(ring, [*range(3, 9), 12, 16])], ids=lambda pairs: f"{len(pairs)}"
)
def test_no_label_covers_a_card_or_another_label(pairs: list[tuple[int, int]]) -> None:
    count = 1 + max(map(max, pairs))
    used = [0] * count
    cables = []
    for one, other in pairs:
        used[one], used[other] = used[one] + 1, used[other] + 1
        cables.append((f"m{one:02}/{used[one]}", f"m{other:02}/{used[other]}"))
    receptacles = {f"m{number:02}": range(1, 7) for number in range(count)}
    labels = ["wrong port", *["jaccl"] * (len(cables) - 1)]
    found = layout(receptacles, cables, labels)
    boxes = [*found.cards.values(), *(box for box in found.labels if box is not None)]
    assert [pair for pair in combinations(boxes, 2) if pair[0].meets(pair[1])] == []
    picture = Box(0, 0, found.width, found.height)
    assert all(
        picture.x <= box.x
        and picture.y <= box.y
        and box.x + box.width <= picture.width
        and box.y + box.height <= picture.height
        for box in boxes
    )
    assert found.labels[0] is not None, "what is wrong is said on its cable"
    assert all(curve is not None for curve in found.curves)


def test_each_cable_of_a_mesh_says_the_transport_of_the_group_on_it() -> None:
    snapshot = recorded("four-macs")
    (fabric,) = cablings(snapshot)
    (picture,) = fabric.pictures
    assert [card.name for card in picture.cards] == ["studio-1", "studio-2", "studio-3", "studio-4"]
    assert {cable.label for cable in picture.cables} == {"jaccl"}


def test_a_missing_cable_is_first_with_what_to_do_and_no_group_on_it() -> None:
    (fabric,) = cablings(recorded("cable-pulled"))
    cable = fabric.cables[0]
    assert (cable.ends, cable.look, cable.label) == (("studio-1/3", "studio-2/3"), "bad", "missing")
    assert cable.person.startswith("plug a Thunderbolt 5 cable")
    assert cable.used_by == ()
