"""What a wrong turn says to type is typed, where no controller runs."""

from __future__ import annotations

import pytest

from tests.cli.live import API, manifest

from .bench import Bench, commands_in, filled
from .errors import ALONE, MIRROR, Row
from .of_a_controller import answers_of
from .scenes import scripted
from .test_healing import CASES

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("row", ALONE, ids=str)
def test_what_an_error_says_to_type_is_taken(row: Row, bench: Bench) -> None:
    values = {
        "FILE": bench.file(
            "all.yaml", "---\n".join(manifest(each) for each in ("node-a", "tiny-model", "tiny"))
        ),
        "BACKUP": str(bench.folder / "backup.tar.gz"),
        "RENAMES": '{"metadata":{"name":"other"}}',
        "MOVED": '{"spec":{"source":{"path":"elsewhere"}}}',
        "HOME": str(bench.home),
    }
    for line in row.first:
        if line == MIRROR:
            bench.mirrors()
        else:
            done = bench.calls(*filled(line, values))
            assert done.code == 0, done.err
    done = bench.calls(*filled(row.typed, values))
    (command, *_) = [each for each in commands_in(done.out + done.err) if row.names(each)]
    if " restore " in command:
        values["FILE"] = values["BACKUP"]
    typed = bench.types(filled(command, values))
    assert typed.code == 0, (command, typed.err)


def test_a_command_names_the_cluster_that_was_chosen_by_an_option(bench: Bench) -> None:
    """Without it, it would be typed for another cluster."""
    chosen = f"reconciler --home '{bench.home}'"
    assert f"{chosen} up" in bench.calls("plan").err
    assert f"{chosen} apply -f FILE" in bench.calls("label", "md/tiny", "a=b").err
    assert f"{chosen} apply -f manifests/" in bench.calls("apply", "x.yaml").err
    bench.monkeypatch.setenv("RECONCILER_HOME", str(bench.home))
    assert "start it with: reconciler up" in bench.types(["reconciler", "plan"]).err
    assert "reconciler context list" in bench.calls("config", "view").err


def test_a_step_of_the_doctor_that_is_a_command_names_the_cluster_too(bench: Bench) -> None:
    (case,) = (made() for name, made in CASES.items() if name == "C14 a session that is over, beside")
    with scripted(bench, **answers_of(case.world)):
        shown = " ".join(bench.calls("doctor").out.split())
    assert f"to do reconciler --home '{bench.home}' node bootstrap node-b" in shown


def test_a_fabric_without_its_last_link_goes_with_the_node(bench: Bench) -> None:
    cables = (
        f"{API}kind: Fabric\nmetadata: {{name: cables}}\n"
        "spec: {links: [[node-a/1, node.b-2/1]], addressing: {pool: 10.0.0.0/24}}\n"
    )
    other = manifest("node-a").replace("node-a", "node.b-2")
    file = bench.file("all.yaml", "---\n".join((manifest("node-a"), other, cables)))
    assert bench.calls("apply", "-f", file).code == 0
    (command,) = commands_in(bench.calls("delete", "node/node.b-2").err)
    assert bench.types(filled(command, {})).code == 0
