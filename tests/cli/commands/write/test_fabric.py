"""Fabrics as they are drawn, as graphs for other programs, and as the manifest of the cabling that is there."""

from __future__ import annotations

import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from reconciler.cli.commands.read.fabric import drawing as fabric_drawing
from reconciler.cli.output.table_layout import WIDTH
from reconciler.source.yaml.documents import load
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller

Row = dict[str, Any]
MISSING = (
    "no cable joins studio-2/4 and studio-3/4: nothing is plugged in at studio-2/4; nothing is plugged in at"
    " studio-3/4"
)


def row(one: str, other: str, state: str = "Connected", gbps: int | None = 80, **more: Any) -> Row:
    speed = {} if gbps is None else {"gbps": gbps}
    return {"ends": [one, other], "state": state, **speed, "interfaces": ["en4", "en5"], **more}


def fabric(*rows: Row, name: str = "studios") -> Any:
    declared = [each["ends"] for each in rows if each["state"] != "Undeclared"]
    return bodies.item("Fabric", name, {"addressing": {}, "links": declared}, links=list(rows))


TRIANGLE = (
    row("studio-1/3", "studio-2/3", addresses=["10.77.0.1/30", "10.77.0.2/30"]),
    row("studio-1/4", "studio-3/3", "TooSlow", 40, text="40 Gb/s", person="another cable"),
    row("studio-2/4", "studio-3/4", "Missing", None, text=MISSING, person="plug one in"),
)


def answer(controller: Controller, *items: dict[str, Any]) -> None:
    controller.answers["get"] = {"version": "1", "revision": "1", "items": list(items)}


def test_one_fabric_is_drawn_with_what_is_wrong(cli: Cli, controller: Controller) -> None:
    answer(controller, fabric(*TRIANGLE))
    assert cli("get", "fabric", "studios").out.splitlines() == [
        "studios: 1 of 3 links are connected",
        "",
        "  studio-1   studio-2   studio-3",
        "  3──────────3          │          80 Gb/s   Connected",
        "  4──────────┼──────────3          40 Gb/s   TooSlow",
        "  │          4┄┄┄┄┄┄┄┄┄┄4          -         Missing",
        "",
        "TooSlow: 40 Gb/s",
        "  to do: another cable",
        "",
        "Missing: no cable joins studio-2/4 and studio-3/4: nothing is plugged in at studio-2/4; nothing is",
        "  plugged in at studio-3/4",
        "  to do: plug one in",
    ]


def test_the_wide_form_has_interfaces_and_addresses(cli: Cli, controller: Controller) -> None:
    answer(controller, fabric(*TRIANGLE))
    lines = cli("get", "fabric", "studios", "-o", "wide").out.splitlines()
    assert "studio-1/3   studio-2/3   en4         10.77.0.1/30" in lines
    assert "studio-3/4   studio-2/4   en5         -" in lines


def test_a_list_of_fabrics_is_a_table(cli: Cli, controller: Controller) -> None:
    answer(controller, fabric(*TRIANGLE))
    rows = [re.split(r"\s{2,}", line) for line in cli("get", "fabrics").out.splitlines()]
    assert rows == [["NAME", "READY", "LINKS", "STATUS"], ["studios", "True", "3", "Ready"]]


@pytest.mark.parametrize("count", [2, 4, 8, 12, 13, 30])
@pytest.mark.parametrize("name", ["m", "studio-in-the-second-rack"])
def test_however_many_machines_there_are_no_line_is_too_long(count: int, name: str) -> None:
    nodes = [f"{name}-{number}" for number in range(count)]
    rows = [row(f"{one}/1", f"{other}/12") for one, other in itertools.pairwise(nodes)]
    rows.append(row(f"{nodes[0]}/3", f"{nodes[-1]}/4", "Swapped", None, text="t " * 90, person="p " * 90))
    for wide in (False, True):
        drawn = [text for text, _ in fabric_drawing.drawing(fabric(*rows), wide, WIDTH)]
        assert max(map(len, drawn)) <= WIDTH
        for node in nodes:
            assert any(node in text for text in drawn)


def test_a_fabric_that_was_not_compared_yet_is_drawn_as_not_known() -> None:
    item = fabric(*TRIANGLE)
    del item["status"]["links"]
    drawn = [text for text, _ in fabric_drawing.drawing(item, False, WIDTH)]
    assert sum(text.endswith("Unknown") for text in drawn) == 3


def test_colours_are_for_terminals_alone(cli: Cli, controller: Controller) -> None:
    answer(controller, fabric(*TRIANGLE))
    assert "\x1b" not in cli("get", "fabric", "studios").out
    states = dict(fabric_drawing.drawing(fabric(*TRIANGLE), False, WIDTH))
    assert states["  3──────────3          │          80 Gb/s   Connected"] == "Connected"


def test_as_svg_every_machine_receptacle_and_finding_is_in_the_picture(
    cli: Cli, controller: Controller
) -> None:
    answer(controller, fabric(*TRIANGLE))
    root = ElementTree.fromstring(cli("get", "fabric", "studios", "-o", "svg").out)
    texts = [text for element in root.iter() for text in [element.text] if text]
    assert {"studio-1", "studio-2", "studio-3", "80 Gb/s", "40 Gb/s TooSlow", "Missing"} <= set(texts)
    assert texts.count("3") == 3
    assert any(text.startswith("Missing: no cable joins") for text in texts)
    width = float(root.attrib["width"])
    assert all(0 <= float(e.attrib["x1"]) <= width for e in root.iter() if "x1" in e.attrib)
    drawn = [element.tag.rpartition("}")[2] for element in root]
    assert max(at for at, tag in enumerate(drawn) if tag == "rect") < drawn.index("circle"), (
        "a box hides a receptacle"
    )


def test_what_a_machine_says_of_itself_breaks_no_picture(cli: Cli, controller: Controller) -> None:
    odd = row("studio-1/3", "studio-2/3", "ThroughDock", None, text='a dock "<b>&" \x1b[31m', person="out")
    answer(controller, fabric(odd))
    assert ElementTree.fromstring(cli("get", "fabric", "studios", "-o", "svg").out) is not None
    assert "\x1b" not in cli("get", "fabric", "studios").out


def test_as_dot_receptacles_are_ports_and_what_is_not_there_is_dashed(
    cli: Cli, controller: Controller
) -> None:
    answer(controller, fabric(*TRIANGLE))
    lines = cli("get", "fabric", "studios", "-o", "dot").out.splitlines()
    assert lines[0] == 'graph "studios" {'
    assert '  "studio-1" [label="{studio-1|{<r3>3|<r4>4}}"];' in lines
    assert '  "studio-2":r4 -- "studio-3":r4 [label="Missing", color="#cf222e", style=dashed];' in lines


def test_a_graph_is_of_one_fabric(cli: Cli, controller: Controller) -> None:
    answer(controller, fabric(*TRIANGLE), fabric(name="others"))
    result = cli("get", "fabrics", "-o", "svg")
    assert result.code == 2
    assert "svg works for one Fabric only: reconciler get fabric NAME -o svg" in result.err


# --- import ------------------------------------------------------------------------------------------


def mac(name: str, *ports: tuple[int, str], answers: bool = True) -> dict[str, Any]:
    """A Node whose machine tells where its ports lead."""
    receptacles = [
        {"receptacle": number, "connected": True, "peer": peer, "gbps": 80} for number, peer in ports
    ]
    item = bodies.item("Node", name, {"local": {}}, mac={"ports": receptacles})
    return {**item, "status": {**item["status"], "conditions": bodies.conditions(answers, "no answer")}}


def of_cluster(controller: Controller, nodes: list[dict[str, Any]], fabrics: list[dict[str, Any]]) -> None:
    def get(request: Any) -> dict[str, Any]:
        items = {"Node": nodes, "Fabric": fabrics}[request.kind]
        return {"version": "1", "revision": "1", "items": items}

    controller.answers["get"] = get


PAIR = [
    mac("studio-1", (3, "studio-2/4"), (5, "studio-2/1")),
    mac("studio-2", (4, "studio-1/3"), (1, "elsewhere/1")),
]


def test_the_cabling_that_is_there_is_a_manifest(cli: Cli, controller: Controller) -> None:
    of_cluster(controller, PAIR, [])
    result = cli("fabric", "import", "studios", "--pool", "10.77.0.0/16")
    assert result.out == (
        "apiVersion: reconciler/v1alpha1\nkind: Fabric\nmetadata:\n  name: studios\nspec:\n  addressing:\n"
        "    pool: 10.77.0.0/16\n  links:\n    - [studio-1/3, studio-2/4]\n"
    )
    assert "not committed; repeat the command with --commit" in result.err
    assert load({"a.yaml": result.out.encode()}, part=True)[0].key == ("Fabric", "studios")
    assert yaml.safe_load(cli("fabric", "import", "studios", "-o", "yaml").out)["spec"] == {
        "links": [["studio-1/3", "studio-2/4"]]
    }


def test_cables_of_other_fabrics_are_left_to_them(cli: Cli, controller: Controller) -> None:
    other = fabric(row("studio-1/3", "studio-2/4"), name="other")
    of_cluster(controller, PAIR, [other])
    result = cli("fabric", "import", "studios")
    assert result.code == 1
    assert "no cable is known that joins two Nodes and is in no other Fabric" in result.err
    assert cli("fabric", "import", "other").code == 0


def test_of_a_machine_that_does_not_answer_no_cable_is_imported_and_that_is_said(
    cli: Cli, controller: Controller
) -> None:
    silent = mac("studio-2", (4, "studio-1/3"), answers=False)
    of_cluster(controller, [PAIR[0], silent], [])
    result = cli("fabric", "import")
    assert result.code == 1
    assert "warning: studio-2 does not answer, so its cables are unknown" in result.err


def test_a_pool_that_is_none_is_refused_before_anything_is_printed(cli: Cli, controller: Controller) -> None:
    of_cluster(controller, PAIR, [])
    result = cli("fabric", "import", "--pool", "8.8.8.0/24")
    assert result.code == 1
    assert "spec.addressing.pool: expected a network within 10.0.0.0/8" in result.err
    assert result.out == ""
