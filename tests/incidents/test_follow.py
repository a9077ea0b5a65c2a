"""Incidents follow from the troubles of each pass and from what became of steps, and from nothing else."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from reconciler import incidents
from reconciler.incidents import FIRST_ENTRIES_KEPT, LAST_ENTRIES_KEPT, REOPENED_WITHIN_SECONDS
from reconciler.resources import ModelDeployment
from reconciler.state import (
    Contact,
    Desired,
    FaultClass,
    NodeName,
    Outcome,
    Plan,
    Reboot,
    RebootNode,
    Trouble,
    subjects,
)
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.incident import EntryKind, Occasion
from reconciler.status import Snapshots
from reconciler.wire.launch import RankId
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt
from tests.incidents.log import Log

NODE = ObjectKey("Node", "node-a")
STUDIO = "node/node-a"


def trouble(
    fault: FaultClass, person: str = "", subject: str = STUDIO, seen: str = "", sign: int = 0
) -> Trouble:
    about, text = subjects.read(subject), seen or f"{fault.title} was seen"
    return Trouble(NODE, about, fault, text, "try something", person, (str(sign),))


def running() -> Log:
    log = Log()
    log.heal()
    log.world.now += 1000
    return log


C2, C3, C8, C9, C11 = (
    FaultClass.RDMA_DISABLED,
    FaultClass.LINK_DOWN,
    FaultClass.RANK_CRASH,
    FaultClass.SILENT_HANG,
    FaultClass.WIRED_MEMORY,
)


def test_a_restart_of_a_machine_is_told_of_the_group_that_it_was_for_and_of_no_other() -> None:
    log = running()
    member, stranger = log.world.groups[log.world.replica()].members[1], NodeName("node-z")
    for name in (member, stranger):
        step = RebootNode(name, Reboot(log.world.now, "boot", "C7: exited with 73"))
        log.outcomes.append((log.world.now, Outcome(step, 5.0)))
    log.look(trouble(C8, subject=f"replica/{log.world.replica()}"))
    assert log.texts(EntryKind.TRIED) == [f"restart {member} (C7: exited with 73)"]


@pytest.mark.parametrize(("restarted", "named"), [(True, "C7"), (False, "C0")])
def test_a_machine_that_is_away_because_it_is_restarted_does_not_rename_the_fault_that_it_is_restarted_for(
    restarted: bool, named: str
) -> None:
    log = running()
    subject, member = f"replica/{log.world.replica()}", log.world.groups[log.world.replica()].members[1]
    log.look(trouble(FaultClass.KERNEL_OBJECTS, subject=subject))
    if restarted:
        log.world.reboots = {member: Reboot(log.world.now, "boot", "C7: exited with 73")}
    log.look(trouble(FaultClass.HOST_UNREACHABLE, subject=subject), after=1.0)
    assert log.the().fault.value == named
    assert log.texts(EntryKind.SEEN) == ["kernel objects was seen", "host unreachable was seen"]


def test_a_group_that_came_up_without_a_fault_is_no_incident() -> None:
    log = running()
    assert log.known == {}


def test_a_crash_is_recorded_from_its_first_sign_to_the_first_completion() -> None:
    log = running()
    log.world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    began = log.world.now
    log.go()
    opened = log.the()
    assert (opened.fault, opened.open, str(opened.subject)) == (C8, True, "replica/tiny/0")
    assert opened.object == ObjectKey("ModelDeployment", "tiny")
    log.heal()
    found = log.the()
    assert not found.open
    assert log.texts(EntryKind.SEEN) == ["rank 1 on node-b (epoch 1, pid 101) was killed by signal 9"]
    assert {entry.rank for entry in found.entries} == {RankId("tiny", 0, 1, 1), None}
    assert log.texts(EntryKind.TRIED) == [
        "form epoch 2 on node-a, node-b over ring-lan (RankExited)",
        "stop rank 0 of tiny/0 on node-a, epoch 1 (epoch 2 replaces it)",
        "start rank 0 of tiny/0 on node-a, epoch 2",
        "start rank 1 of tiny/0 on node-b, epoch 2",
        "ask tiny/0, epoch 2, for a first completion",
    ]
    assert log.texts(EntryKind.OUTCOME) == ["tiny/0 serves again as epoch 2"]
    group = log.world.groups[log.world.replica()]
    assert group.proven_at is not None
    assert found.closed_at == group.proven_at
    assert found.lasted(0.0) == found.unserved(0.0) == group.proven_at - began
    assert [entry.at for entry in found.entries] == sorted(entry.at for entry in found.entries)
    assert all(entry.seconds == 0.5 for entry in found.entries[2:-1]), "how long each step took"
    assert log.the().entries[-1].seconds == group.proven_at - group.created_at


def test_it_is_settled_when_it_has_been_quiet_for_long_enough() -> None:
    log = running()
    log.world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    log.heal()
    closed_at = log.the().closed_at
    assert closed_at is not None
    log.world.now = closed_at + REOPENED_WITHIN_SECONDS - 1
    log.go()
    assert not log.the().settled
    log.world.now += 1
    log.go()
    assert log.the().settled
    assert log.occasions == [(1, Occasion.OPENED), (1, Occasion.CLOSED)]
    log.go()
    assert log.known == {}


def test_one_that_flaps_is_reopened_and_reported_once() -> None:
    log = running()
    for epoch in range(1, 6):
        log.world.end_rank(RankId("tiny", 0, epoch, 1), signal=9)
        for _ in range(300):
            log.world.now += 1
            log.go()
            if log.world.groups[log.world.replica()].epoch > epoch and not log.the().open:
                break
    found = log.the()
    assert (found.id, found.reopened) == (1, 4)
    assert len([text for text in log.texts(EntryKind.TRIED) if text.startswith("form epoch")]) == 5
    assert log.occasions == [(1, Occasion.OPENED)]


def test_what_comes_after_quiet_is_another_incident() -> None:
    log = running()
    log.world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    log.heal()
    log.world.now += REOPENED_WITHIN_SECONDS + 700
    log.go()
    log.world.end_rank(RankId("tiny", 0, 2, 1), signal=9)
    log.heal()
    assert (list(log.settled), list(log.known)) == ([1], [2])
    assert next(e.text for e in log.known[2].entries if e.kind is EntryKind.TRIED).startswith("form epoch 3")


def test_it_stays_open_while_its_replica_does_not_serve_whatever_the_plan_says() -> None:
    log = running()
    log.world.mute.add(log.world.replica())
    log.world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    for _ in range(20):
        log.world.now += 1
        log.go()
    assert log.the().open
    assert log.the().unserved(log.world.now) > 5
    assert any("first completion" in text for text in log.texts(EntryKind.TRIED))


def test_a_group_that_went_on_by_itself_serves_on() -> None:
    log = running()
    hang = replace(trouble(C9, subject="replica/tiny/0"), object=ObjectKey("ModelDeployment", "tiny"))
    log.look(hang)
    log.look(after=3)
    assert log.texts(EntryKind.OUTCOME) == ["tiny/0 continues to serve as epoch 1"]
    assert (log.the().lasted(0.0), log.the().unserved(0.0)) == (3.0, 0.0)


@pytest.mark.parametrize("change", ["removed", "scaled"])
def test_it_ends_when_nobody_wants_the_replica_any_more(change: str) -> None:
    log = running()
    log.look(replace(trouble(C8, subject="replica/tiny/0"), object=ObjectKey("ModelDeployment", "tiny")))
    wish = log.world.manifests.pop()
    assert isinstance(wish, ModelDeployment)
    if change == "scaled":
        log.world.manifests.append(
            wish.model_copy(update={"spec": wish.spec.model_copy(update={"replicas": 0})})
        )
    log.look()
    assert log.texts(EntryKind.OUTCOME) == ["tiny/0 is no longer wanted"]


def test_the_end_of_everything_and_manifests_not_read_yet_end_no_incident() -> None:
    log = running()
    log.look(trouble(C2))
    before = log.the()
    log.world.stopping = True
    log.look(after=5)
    assert log.the() == before
    world = log.world
    unread = Snapshots(
        replace(world.desired(), revision=""), world.observed(), world.memory(), Plan(), world.now
    )
    assert incidents.follow(log.known, 1, unread, [], {}) == log.known


# --- classes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "classes"),
    [
        ([[C9], [C3]], [C3]),
        ([[C3], [C9]], [C3]),
        ([[C9], [], [C3]], [C3]),
        ([[C2, C11]], [C2, C11]),
        ([[C2], [C2, C11]], [C2, C11]),
        ([[C2, C11], [C11, C2], [C2]], [C2, C11]),
        ([[C9], [C3], [C9], [C3]], [C3]),
        ([[C2, C9], [C2, C3]], [C2, C3]),
    ],
)
def test_what_follows_is_the_same_incident_and_what_is_beside_it_is_another(
    seen: list[list[FaultClass]], classes: list[FaultClass]
) -> None:
    log = running()
    log.world.down.add("node-a")  # so that nothing is over
    for faults in seen:
        log.look(*map(trouble, faults), after=1)
    assert [incident.fault for incident in log.known.values()] == classes


def test_what_is_wrong_after_the_end_of_another_trouble_is_an_incident_of_its_own() -> None:
    log = running()
    log.look(trouble(FaultClass.HOST_UNREACHABLE, seen="node-a does not answer"))
    log.look(after=5)
    log.look(trouble(C2, "switch RDMA on", seen="RDMA is disabled on node-a"), after=5)
    found = log.known.values()
    assert [(each.fault, each.open, each.person) for each in found] == [
        (FaultClass.HOST_UNREACHABLE, False, ""),
        (C2, True, "switch RDMA on"),
    ]


def test_an_entry_says_what_it_was_taken_for_at_that_time() -> None:
    log = running()
    log.look(trouble(C9))
    log.look(trouble(C3), after=1)
    entries = [entry.fault for entry in log.the().entries if entry.kind is EntryKind.SEEN]
    assert entries == [C9, C3]


def test_the_sign_that_stands_for_all_is_one_of_what_the_incident_is_called_after() -> None:
    log = running()
    log.look(trouble(C9, seen="no step of rank 1"))
    log.look(trouble(C3, seen="port 3 is down"), after=1)
    assert incidents.summary(log.the()) == "port 3 is down; try something"


def test_what_shows_on_a_machine_after_something_was_done_about_it_does_not_rename_the_incident() -> None:
    log = running()
    node, wedged = NodeName("node-a"), FaultClass.VERBS_WEDGED
    log.look(trouble(wedged, seen="the tools do not come back"))
    log.outcomes = [
        (
            log.world.now,
            Outcome(RebootNode(node, Reboot(log.world.now, "boot", "its tools do not come back")), 5.0),
        )
    ]
    log.look(trouble(wedged, seen="the tools do not come back"), after=1)
    log.look(trouble(FaultClass.PORT_CONFIGURATION, seen="en4 is a member of a bridge"), after=1)
    log.look(after=1)
    assert (log.the().fault, log.the().open) == (wedged, False)
    assert incidents.summary(log.the()) == "the tools do not come back; node-a can be used again"


def test_what_a_person_was_asked_to_mend_a_moment_ago_is_the_same_incident_whatever_else_was_in_it() -> None:
    log = running()
    log.look(trouble(C2, person="enable RDMA"))
    log.look(trouble(FaultClass.HOST_UNREACHABLE), after=5)
    log.look(after=5)
    assert not log.the().open
    log.look(trouble(C2, person="enable RDMA"), after=5)
    assert (log.the().open, log.the().asked, log.texts(EntryKind.PERSON)) == (True, (C2,), ["enable RDMA"])


def test_subjects_have_incidents_of_their_own() -> None:
    log = running()
    log.look(trouble(C3), trouble(C3, subject="link/a/b"), trouble(C3, subject="node/node-b"))
    assert [str(incident.subject) for incident in log.known.values()] == [STUDIO, "link/a/b", "node/node-b"]


# --- nodes -------------------------------------------------------------------------------------------


def test_a_node_is_well_when_it_is_reached_and_nothing_is_wrong_with_it() -> None:
    log = running()
    log.world.down.add("node-a")
    assert log.world.observed().nodes[NodeName("node-a")].contact is not Contact.REACHED
    log.look(trouble(FaultClass.HOST_UNREACHABLE))
    log.look(after=5)
    assert log.the().open, "the trouble is gone, the node is not back"
    log.world.down.clear()
    log.look(after=5)
    assert log.texts(EntryKind.OUTCOME) == ["node-a can be used again"]
    assert log.the().lasted(0.0) == 10.0


def test_a_node_that_answers_again_is_not_well_before_its_probes_have_said_so() -> None:
    log = running()
    log.look(trouble(C2))
    name = NodeName("node-a")
    log.world.stale[name] = replace(log.world.observed().nodes[name], probed=False)
    log.look(after=5)
    assert log.the().open
    log.world.stale.clear()
    log.look(after=5)
    assert log.texts(EntryKind.OUTCOME) == ["node-a can be used again"]


def test_a_node_that_is_taken_out_of_the_cluster_has_no_open_incident() -> None:
    log = running()
    log.look(trouble(C2))
    log.world.manifests = [m for m in log.world.manifests if m.metadata.name != "node-a"]
    log.look()
    assert log.texts(EntryKind.OUTCOME) == ["node-a is no longer a node of this cluster"]


# --- persons -----------------------------------------------------------------------------------------


def test_a_person_is_asked_once_for_each_class_however_long_it_lasts_and_often_it_flaps() -> None:
    log = running()
    for _ in range(5):
        log.look(trouble(C2, person="start node-a in Recovery mode"), after=1)
        log.look(trouble(C2, person="start node-a in Recovery mode"), after=1)
        log.look(after=1)
    assert log.texts(EntryKind.PERSON) == ["start node-a in Recovery mode"]
    assert log.occasions == [(1, Occasion.OPENED), (1, Occasion.PERSON_NEEDED)]


BESIDE = [(), (C3,), (C9,), (C8,), (C8, C9)]


def test_a_person_is_asked_once_for_what_stands_whatever_else_comes_and_goes() -> None:
    """As while a transport is left alone, and the ranks that went on over another one crash. All short stories are told."""
    world = running().world
    stands = trouble(FaultClass.WRONG_RESULTS, "report it")
    for before, after, first in itertools.product(BESIDE, itertools.product(BESIDE, repeat=2), (True, False)):
        log = Log(world)
        log.look(*map(trouble, before), after=1)
        for faults in ((), *after):
            others = [*map(trouble, faults)]
            log.look(*([stands, *others] if first else [*others, stands]), after=1)
        asked = [number for number, occasion in log.occasions if occasion is Occasion.PERSON_NEEDED]
        assert len(asked) == 1, (before, after, first)


def test_a_person_who_is_needed_later_is_asked_then_and_for_as_long_as_it_is_so() -> None:
    log = running()
    log.look(trouble(C9))
    assert log.the().person == ""
    log.look(trouble(C3, "put the cable of port 3 back", seen="port 3 is down"), after=1)
    assert log.the().person == "put the cable of port 3 back"
    assert log.occasions == [(1, Occasion.OPENED), (1, Occasion.PERSON_NEEDED)]
    assert incidents.summary(log.the()) == "PERSON NEEDED: put the cable of port 3 back (port 3 is down)"
    log.look(after=1)
    assert (log.the().person, log.the().open) == ("", False)


def test_a_person_is_asked_in_the_name_of_what_is_to_be_mended_whatever_the_incident_is_called() -> None:
    log = running()
    log.look(trouble(C3))
    log.look(trouble(C9, "look at its fans"), after=1)
    assert log.the().fault is C3
    message = incidents.event(log.the(), Occasion.PERSON_NEEDED, 5.0).message
    assert message == "silent hang (C9) needs a person: look at its fans; see: reconciler incidents 1"


def test_each_message_that_a_person_is_needed_names_the_fault_that_it_is_for() -> None:
    log = running()
    messages = []
    for fault, person in ((C2, "start it in Recovery mode"), (C11, "restart it"), (C9, "look at its fans")):
        log.look(trouble(fault, person), after=1)
        messages.append(incidents.event(log.the(), Occasion.PERSON_NEEDED, 5.0).message)
    assert [occasion for _, occasion in log.occasions] == [Occasion.OPENED, *[Occasion.PERSON_NEEDED] * 3]
    assert messages == [
        "RDMA disabled (C2) needs a person: start it in Recovery mode; see: reconciler incidents 1",
        f"{C11.title} (C11) needs a person: restart it; see: reconciler incidents 1",
        "silent hang (C9) needs a person: look at its fans; see: reconciler incidents 1",
    ]


def test_occasions_are_events_whose_keys_tell_them_once() -> None:
    log = running()
    log.look(trouble(C2, person="press the power button"))
    keys = [incidents.event(log.the(), occasion, 5.0).key for _, occasion in log.occasions]
    assert keys == ["incident/1/opened", "incident/1/personNeeded/1"]
    event = incidents.event(log.the(), Occasion.PERSON_NEEDED, 5.0)
    assert (event.reason, event.warning, event.object) == ("PersonNeeded", True, NODE)
    assert event.message == (
        "RDMA disabled (C2) needs a person: press the power button; see: reconciler incidents 1"
    )


# --- bounds ------------------------------------------------------------------------------------------


def test_what_only_grows_while_it_stays_true_is_no_news() -> None:
    log = running()
    for seconds in range(60, 65):
        log.look(trouble(C9, seen=f"no step for {seconds} s while 3 requests wait"), after=1)
    assert log.texts(EntryKind.SEEN) == ["no step for 60 s while 3 requests wait"]
    before = log.the()
    log.look(trouble(C9, seen="no step for 66 s while 3 requests wait"), after=1)
    assert log.the() == before, "nothing to write"
    log.look(trouble(C9, seen="no step for 66 s while 3 requests wait", sign=1), after=1)
    assert len(log.texts(EntryKind.SEEN)) == 2


def test_what_repeats_is_counted() -> None:
    log = running()
    for _ in range(7):
        log.look(trouble(C9))
        log.look(after=1)
    (entry,) = [entry for entry in log.the().entries if entry.kind is EntryKind.SEEN]
    assert entry.times == 7
    assert (entry.at, entry.last_at) == (log.the().opened_at, log.the().opened_at + 6), (
        "when it was seen first, and last"
    )


def test_the_middle_of_a_long_incident_is_left_out() -> None:
    log = running()
    for number in range(100):
        log.look(trouble(C9, seen=f"step {number} hangs", sign=number), after=1)
    found = log.the()
    assert len(found.entries) == FIRST_ENTRIES_KEPT + LAST_ENTRIES_KEPT
    assert found.left_out == 100 - len(found.entries)
    assert (found.entries[0].text, found.entries[-1].text) == ("step 0 hangs", "step 99 hangs")


def test_a_failed_step_is_reported_with_its_problem() -> None:
    log = running()
    log.world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    decided = log.go()
    log.outcomes = [(log.world.now, Outcome(decided.steps[0], 0.2, "the disk is full"))]
    log.go()
    assert any(text.endswith("failed: the disk is full") for text in log.texts(EntryKind.TRIED))


# --- crashes of the controller ------------------------------------------------------------------------


def test_a_controller_that_ended_in_between_costs_no_more_than_the_outcomes_it_had_not_written() -> None:
    log = running()
    log.world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    while True:
        steps = log.go().steps
        log.outcomes = []
        log.world.restart_controller()
        if not steps:
            break
    found = log.the()
    assert (found.id, found.open, log.occasions) == (1, False, [(1, Occasion.OPENED)])
    assert log.texts(EntryKind.TRIED) == ["form epoch 2 on node-a, node-b over ring-lan (RankExited)"]
    assert log.texts(EntryKind.OUTCOME) == ["tiny/0 serves again as epoch 2"]


def test_before_the_manifests_are_read_nothing_is_over() -> None:
    log = running()
    log.world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    log.go()
    world = log.world
    unread = Snapshots(Desired(""), world.observed(), world.memory(), Plan(), world.now + 1)
    assert incidents.follow(log.known, log.last_id, unread, (), {}) == log.known


def test_a_cable_is_well_when_both_of_its_machines_say_so() -> None:
    log = running()
    log.look(trouble(C3, subject="link/node-a/node-b"))
    log.world.down.add("node-b")
    log.look(after=5)
    assert log.the().open, "nobody says how it is"
    log.world.down.clear()
    log.world.since["node-b"] = log.world.now
    log.look(after=5)
    assert log.the().open, "nobody has looked at it since"
    log.look(after=60)
    assert log.texts(EntryKind.OUTCOME) == ["the problem is gone"]


def test_a_prompt_that_ended_groups_is_an_incident_of_its_own_that_says_what_is_done_about_it() -> None:
    log = running()
    ended = (EndedGroup(0, 1), EndedGroup(0, 2))
    log.world.quarantined = (
        QuarantinedPrompt("tiny", "0a", "req-7", "2 messages", ended, log.world.now, log.world.now + 3600),
    )
    log.go()
    assert log.the().open
    assert log.texts(EntryKind.SEEN) == [
        "request req-7 (2 messages) ended epoch 1 of tiny/0 and epoch 2 of tiny/0"
    ]
    log.world.now += 61
    log.go()
    assert not log.the().open
    (outcome,) = log.texts(EntryKind.OUTCOME)
    assert outcome.startswith("its prompt is refused until ")
