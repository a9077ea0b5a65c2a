"""What is said of Fabrics that do not fit the Nodes, or each other."""

from __future__ import annotations

import pytest

from reconciler.errors import InvalidManifests
from reconciler.source.editing import apply_documents, delete_objects, delete_with_links
from reconciler.source.yaml.documents import load

NODES = "".join(
    f"---\napiVersion: reconciler/v1alpha1\nkind: Node\nmetadata: {{name: studio-{n}}}\nspec: {{local: {{}}}}\n"
    for n in (1, 2, 3)
).encode()


def fabric(name: str, *links: str, pool: str = "") -> bytes:
    lines = [
        "apiVersion: reconciler/v1alpha1",
        "kind: Fabric",
        f"metadata: {{name: {name}}}",
        "spec:",
        *([f"  addressing: {{pool: {pool}}}"] if pool else []),
        "  links:",
        *(f"    - [{link}]" for link in links),
    ]
    return "\n".join(lines).encode() + b"\n"


def problems_of(**files: bytes) -> list[str]:
    with pytest.raises(InvalidManifests) as caught:
        load({f"{name}.yaml": text for name, text in files.items()})
    return str(caught.value).split("\n")


def test_a_link_to_an_unknown_node_is_named_with_its_place_and_the_nearest_node() -> None:
    assert problems_of(
        nodes=NODES, fabric=fabric("studios", "studio-1/3, studio-2/3", "studio-1/4, studoi-3/3")
    ) == [
        'fabric.yaml:7:20: spec.links[1][1]: there is no Node "studoi-3"; did you mean "studio-3"? If the Node was'
        " removed, remove its links from the Fabric"
    ]


def test_where_no_name_is_near_it_is_said_what_to_do() -> None:
    assert problems_of(fabric=fabric("studios", "studio-1/3, mini/3")) == [
        'fabric.yaml:6:8: spec.links[0][0]: there is no Node "studio-1"; add the Node first, or remove its links'
        " from the Fabric",
        'fabric.yaml:6:20: spec.links[0][1]: there is no Node "mini"; add the Node first, or remove its links from'
        " the Fabric",
    ]


def test_a_fabric_alone_is_a_part_of_manifests_that_have_its_nodes() -> None:
    documents = load({"fabric.yaml": fabric("studios", "studio-1/3, studio-2/3")}, part=True)
    assert apply_documents({"nodes.yaml": NODES}, documents).results[0].action == "created"
    with pytest.raises(InvalidManifests, match='there is no Node "studio-1"'):
        apply_documents({}, documents)


def test_a_node_cannot_go_while_a_fabric_names_it() -> None:
    files = {"nodes.yaml": NODES, "fabric.yaml": fabric("studios", "studio-1/3, studio-2/3")}
    with pytest.raises(InvalidManifests, match='there is no Node "studio-2"'):
        delete_objects(files, [("Node", "studio-2")])
    assert delete_objects(files, [("Node", "studio-3")]).results[0].action == "deleted"
    both = delete_objects(files, [("Node", "studio-2"), ("Fabric", "studios")])
    assert {result.action for result in both.results} == {"deleted"}


def test_a_receptacle_is_in_one_fabric() -> None:
    assert problems_of(
        a=fabric("left", "studio-1/3, studio-2/3"),
        b=fabric("right", "studio-2/4, studio-3/4", "studio-3/3, studio-2/3"),
        nodes=NODES,
    ) == ['b.yaml:7:20: spec.links[1][1]: studio-2/3 already has a cable in Fabric "left", at a.yaml:1']


def test_the_pools_of_two_fabrics_are_apart() -> None:
    assert problems_of(
        a=fabric("left", "studio-1/3, studio-2/3", pool="10.77.0.0/16"),
        b=fabric("right", "studio-2/4, studio-3/4", pool="10.77.8.0/24"),
        nodes=NODES,
    ) == [
        'b.yaml:5:22: spec.addressing.pool: 10.77.8.0/24 overlaps 10.77.0.0/16 of Fabric "left", at a.yaml:1:'
        " two machines would get one address"
    ]


def test_a_node_that_goes_with_its_links_leaves_none_that_may_be_untested() -> None:
    written = fabric("studios", "studio-1/3, studio-2/3", "studio-1/4, studio-3/3").decode()
    allowed = "  allowUntested: [[studio-1/3, studio-2/3], [studio-3/3, studio-1/4]]\n"
    files = {"fabric.yaml": (written + allowed).encode(), "nodes.yaml": NODES}
    after = delete_with_links(files, [("Node", "studio-2")]).applied_to(files)
    text = after["fabric.yaml"].decode()
    assert "studio-2" not in text
    assert text.count("studio-1/4") == text.count("studio-3/3") == 2
