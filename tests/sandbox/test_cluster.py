"""Which emulated machines there are, and how they are cabled, by a number, a shape and manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Invalid
from reconciler.sandbox import cluster
from reconciler.sandbox.world.macs import MESH, RING
from reconciler.sandbox.world.state import World, shown
from reconciler.source.files import read_paths
from reconciler.source.yaml.documents import load

EXAMPLES = Path(__file__).parents[2] / "examples"
BOOTS = [str(number) for number in range(cluster.MACHINES_MAX)]


def read(*paths: str) -> list[Any]:
    files = read_paths(tuple(str(EXAMPLES / path) for path in paths), lambda: b"")
    return [each.manifest for each in load(files, part=True)]


def made(
    *paths: str, count: int | None = None, shape: str | None = None, there: list[Any] | None = None
) -> World:
    manifests = read(*paths) if paths else []
    machines = cluster.of_nodes(manifests, None, BOOTS, 0.0, count)
    return cluster.joined(machines, manifests, shape, there or [])


def cables(world: World) -> list[str]:
    return [" ".join(map(shown, sorted(cable.ends))) for cable in world.cables]


@pytest.mark.parametrize(
    ("example", "count", "shape"),
    [
        ("four-studios", 4, MESH),
        ("two-minis", 2, MESH),
        ("two-minis", 2, RING),
        ("ring-of-three", 3, RING),
        ("ring-of-three", 3, MESH),
        ("mixed-thunderbolt-4", 3, MESH),
    ],
)
def test_an_example_of_a_shape_keeps_its_receptacles(example: str, count: int, shape: str) -> None:
    declared = made(example)
    assert made(example, count=count, shape=shape) == declared
    (fabric,) = (each for each in read(example) if each.kind == "Fabric")
    assert sorted(cables(declared)) == sorted(" ".join(sorted(link)) for link in fabric.spec.links)


def test_a_number_alone_makes_the_macs_that_the_example_has_and_cables_them_as_it_does() -> None:
    assert cables(made(count=4, shape=MESH)) == cables(made("four-studios"))
    assert [machine.name for machine in made(count=4).machines] == [f"studio-{n}" for n in (1, 2, 3, 4)]
    assert made("four-studios/serving.yaml", count=4) == made(count=4), "manifests without a Node name none"


def test_another_shape_than_is_declared_is_cabled_as_it_is_asked_for() -> None:
    ring = cables(made("four-studios", shape=RING))
    assert ring == [
        "studio-1/3 studio-2/3",
        "studio-2/4 studio-3/3",
        "studio-3/4 studio-4/3",
        "studio-1/4 studio-4/4",
    ]
    one = [each for each in read("four-studios") if each.kind == "Fabric"]
    assert len(cables(made("four-studios", there=one, shape=RING))) == 6, "a file says it cable by cable"


@pytest.mark.parametrize(
    ("paths", "count", "message"),
    [
        (("four-studios",), 3, "the manifests have 4 Nodes, not 3: use --nodes 4, or omit it"),
        (("four-studios/serving.yaml",), None, "give the number of Macs with --nodes"),
        (("four-studios/fabric.yaml",), 3, "no emulated machine 'studio-4'"),
    ],
)
def test_what_does_not_fit_is_refused(paths: tuple[str, ...], count: int | None, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        made(*paths, count=count)
