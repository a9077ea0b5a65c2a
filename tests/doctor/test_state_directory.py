"""What the doctor says of the controller's own files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reconciler.doctor import Up, examine_home, examine_up
from reconciler.doctor.state_directory import ACTS_SECONDS
from reconciler.inventory import observe_console
from reconciler.wire.supervision import Act
from tests.worlds import World, node

HEALTHY = World([node("node-a")]).memory()


def test_a_state_directory_without_a_fault_has_no_finding() -> None:
    assert list(examine_home(HEALTHY, [])) == []


def test_every_fault_says_what_was_seen_and_what_to_do() -> None:
    memory = replace(HEALTHY, unwritable="the disk is full", locked="store.db is locked")
    found = list(examine_home(memory, ["store.db.damaged-20270115T080000000000Z"]))
    assert [each.seen for each in found] == [
        "the disk is full",
        "store.db is locked",
        "the store was damaged, and is kept as store.db.damaged-20270115T080000000000Z",
    ]
    assert all(each.means and each.steps for each in found)
    assert found[-1].steps.endswith("then delete store.db.damaged-20270115T080000000000Z*")


def act(at: float, service: str) -> Act:
    return Act(at, service, "ServiceReplaced", f"the {service} was replaced at {at:g}")


def test_services_that_gave_no_answer_are_shown_for_a_day_one_finding_each() -> None:
    acts = (act(1.0, "console"), act(100.0, "gateway"), act(200.0, "gateway"), act(300.0, "controller"))
    found = list(examine_up(Up(acts, 0), now=2.0 + ACTS_SECONDS))
    assert [each.seen for each in found] == [
        "the controller was replaced at 300 (1 in the last day)",
        "the gateway was replaced at 200 (2 in the last day)",
    ]
    assert list(examine_up(Up(acts, 0), now=301.0 + ACTS_SECONDS)) == []


def test_a_supervisor_that_is_stopped_is_shown_with_what_continues_it() -> None:
    (found,) = examine_up(Up((), 4711), now=0.0)
    assert "pid 4711" in found.seen
    assert "kill -CONT 4711" in found.steps


def test_a_console_that_does_not_listen_is_shown_with_its_own_words(tmp_path: Path) -> None:
    file = tmp_path / "console.json"
    file.write_text('{"problem": "127.0.0.1:8480 is in use", "url": null}')
    (found,) = examine_up(Up((), 0, observe_console(file)), now=0.0)
    assert found.seen == "the console: 127.0.0.1:8480 is in use"
    assert "spec.console" in found.steps
    for content in ("", "[]", "{}", '{"problem": ""}', '{"problem": null}', "\0" * 20):
        file.write_text(content)
        assert list(examine_up(Up((), 0, observe_console(file)), now=0.0)) == []
    file.unlink()
    assert observe_console(file) == ""
