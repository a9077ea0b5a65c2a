"""What a rehearsal puts in place of real machines, weights, keys and messages; and its faults and its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli.commands.ci.course import Fault, Step
from reconciler.cli.commands.ci.faults import CABLE, CLASSES, NODE, chosen, named
from reconciler.cli.commands.ci.home import put_models
from reconciler.cli.commands.ci.rehearse import TINY
from reconciler.cli.commands.ci.report import Report, escaped, markdown, table
from reconciler.cli.commands.ci.stand_ins import StandIns, stand_ins
from reconciler.errors import Invalid
from reconciler.sandbox.commands import COMMANDS
from reconciler.source.yaml.documents import load
from reconciler.source.yaml.plain import as_yaml
from reconciler.state import FaultClass

ROOT = Path(__file__).parents[4]
CLUSTERS = sorted((ROOT / "examples").glob("*/nodes.yaml"))
WIDTH = 100


def document(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "reconciler/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def deployment(name: str = "large", **spec: Any) -> dict[str, Any]:
    return document("ModelDeployment", name, model="large", **spec)


def model(**source: Any) -> dict[str, Any]:
    return document("Model", "large", source=source)


def only(made: StandIns, kind: str) -> dict[str, Any]:
    (found,) = made.of_kind(kind).values()
    return dict(found["spec"])


@pytest.mark.parametrize("nodes", CLUSTERS, ids=lambda path: path.parent.name)
def test_every_example_becomes_manifests_that_are_valid(nodes: Path) -> None:
    files = {path.name: path.read_bytes() for path in nodes.parent.glob("*.yaml")}
    plain = [each.manifest.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in load(files)]
    made = stand_ins(plain, {})
    assert load({"made.yaml": "---\n".join(map(as_yaml, made.documents)).encode()})
    assert bool(made.served) == any(each["kind"] == "ModelDeployment" for each in plain)


def test_a_machine_is_reached_as_the_emulated_one_and_keeps_what_else_is_declared() -> None:
    node = document("Node", "a", ssh={"host": "a.local"}, address="192.168.1.2", memory={"reserve": "8GiB"})
    access = {"ssh": {"host": "127.0.0.1"}, "python": "/emulated/python3"}
    spec = only(stand_ins([node], {"a": access}), "Node")
    assert spec == {"memory": {"reserve": "8GiB"}, "repair": {"network": True}, **access}


def test_other_weights_are_another_folder_and_the_same_ones_the_same() -> None:
    one, again, other = (
        stand_ins([model(huggingface={"repo": "o/m", "revision": revision})], {})
        for revision in ("a" * 40, "a" * 40, "b" * 40)
    )
    assert list(one.models) == list(again.models) != list(other.models)
    assert "every model is the tiny model" in one.notes[0]


def test_the_model_that_stands_in_is_part_of_the_product_and_gets_the_contexts(tmp_path: Path) -> None:
    put_models(tmp_path, TINY, {"large-1": 50_000})
    config = json.loads((tmp_path / "large-1" / "config.json").read_text())
    assert config["max_position_embeddings"] == 50_000
    assert (tmp_path / "large-1" / "model.safetensors").stat().st_size > 1_000_000


def test_a_context_that_is_asked_for_fits_the_weights_that_stand_in() -> None:
    made = stand_ins([model(path="x"), deployment(serving={"context": 200_000})], {})
    assert list(made.models.values()) == [200_000]


@pytest.mark.parametrize(
    ("nodes", "fitting"),
    [(1, (1, 1)), (2, (2, 2)), (3, (2, 2)), (7, (4, 4)), ({"min": 2, "max": 3}, (2, 2)), ({"min": 3, "max": 8}, (2, 8))],
)  # fmt: skip
def test_a_group_has_as_many_ranks_as_the_tiny_model_can_be_split_over(
    nodes: Any, fitting: tuple[int, int]
) -> None:
    made = stand_ins([deployment(parallelism={"nodes": nodes, "strategy": "pipeline"})], {})
    assert only(made, "ModelDeployment")["parallelism"] == {
        "strategy": "tensor",
        "nodes": dict(zip(("min", "max"), fitting, strict=True)),
    }
    changed = nodes not in (1, 2)
    assert any("the tiny model allows no more" in note for note in made.notes) == changed


def test_nobody_outside_is_told_or_served_anything() -> None:
    made = stand_ins(
        [
            document("Notifier", "on-call", webhook={"url": "https://chat.example.com/secret"}),
            document("ApiKey", "lea", digest="x"),
            document(
                "Gateway", "main", listen="0.0.0.0:443", auth={"mode": "keys"}, tls={"key": "/k"}, hold="9s"
            ),
        ],
        {},
    )
    assert [each["kind"] for each in made.documents] == ["Gateway"]
    assert only(made, "Gateway") == {"hold": "9s", "listen": "127.0.0.1:8400", "auth": {"mode": "none"}}


def test_manifests_without_an_endpoint_get_one_and_no_manifests_get_nothing() -> None:
    assert stand_ins([model(path="x")], {}).of_kind("Gateway")
    assert stand_ins([], {}).documents == []


# --- faults -----------------------------------------------------------------------------------------------

GROUPS: Any = [{"status": {"groups": [{"nodes": ["a", "b"]}]}}]
FABRIC: Any = [{"spec": {"links": [["c/1", "d/1"], ["a/3", "b/4"]]}}]


def test_every_class_has_commands_that_exist() -> None:
    assert list(CLASSES) == sorted((each.value for each in FaultClass), key=lambda name: int(name[1:]))
    for commands, back in CLASSES.values():
        assert {each.split()[0] for each in (*commands, *back)} <= set(COMMANDS)
        assert {NODE, CABLE} & set(" ".join(commands).split())


def test_a_rank_is_killed_and_a_cable_of_the_group_is_pulled_and_put_back() -> None:
    assert chosen([], GROUPS, FABRIC) == [
        Fault("kill a rank on b", ["kill b"]),
        Fault("pull the cable at a/3", ["unplug a/3"], ["plug a/3"]),
    ]
    assert [fault.name for fault in chosen([], GROUPS, [])] == ["kill a rank on b"]
    assert chosen(["C5"], [], FABRIC) == [], "where nothing serves, nothing can be broken"


def test_classes_are_broken_by_name() -> None:
    assert named(["c5, C12", "C3"]) == ["C5", "C12", "C3"]
    fault = chosen(["C4"], GROUPS, FABRIC)[-1]
    assert (fault.commands, fault.back) == (["bridge a/3"], ["bridge a/3 --undo"])
    with pytest.raises(Invalid, match='no class of faults "C99"; expected one of C0, C1'):
        named(["C99"])
    with pytest.raises(Invalid, match="C3 needs a cable, and the manifests declare none"):
        chosen(["C3"], GROUPS, [])


# --- the table ----------------------------------------------------------------------------------------------

STEPS = [
    Step("start the base", True, 1.2, 6.4, {}, 3, 0, 0.8),
    Step("apply the change", True, 0.5, 1.9, {"tiny": 1.2}, 4, 0, 1.5, ["held"]),
    Step("kill a rank on a-machine-with-a-long-name", False, None, None, {"tiny": 180.0}, 40, 12, 60.0, ["x" * 900]),
]  # fmt: skip


def report(passed: bool = False) -> Report:
    return Report(passed, STEPS, ["large is split over 2 nodes"], "remote: received")


def test_the_table_says_for_each_step_what_clients_noticed() -> None:
    lines = table(report()).splitlines()
    assert lines[0].split("  ")[0] == "STEP"
    assert lines[2].split() == [
        "apply",
        "the",
        "change",
        "ok",
        "0.5",
        "s",
        "1.9",
        "s",
        "1.2",
        "s",
        "4",
        "1.5",
        "s",
    ]
    assert "40, 12 failed" in lines[3]
    assert "FAILED" in lines[3]
    assert max(map(len, lines[:4])) <= WIDTH
    assert lines[-1] == "not every step ended as it should"
    assert table(report(True)).splitlines()[-1] == "every step ended as it should"


def test_the_comments_table_has_a_row_for_each_step_with_what_was_said() -> None:
    lines = markdown(report()).splitlines()
    assert {line.count("|") for line in lines[:5]} == {9}
    assert lines[3].endswith("| held |")
    assert lines[-1] == "- large is split over 2 nodes"


def test_words_of_others_are_shown_and_not_obeyed() -> None:
    assert escaped("a|b `c` @ada\n<img>") == "a\\|b \\`c\\` &#64;ada &#60;img&#62;"


def test_as_data_it_has_the_names_of_json() -> None:
    body = report().plain()
    assert body["passed"] is False
    assert body["steps"][1]["servedAfter"] == 1.9
    assert yaml.safe_load(yaml.safe_dump(body)) == body
