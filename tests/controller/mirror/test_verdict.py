"""What a forge is told of a commit, and what a pull request is told of its plan."""

from __future__ import annotations

from dataclasses import replace

from reconciler.controller.mirror import comment
from reconciler.controller.mirror.standing import Standing, answered
from reconciler.controller.mirror.verdict import Verdict, verdict
from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.source.mirror.looking import Look
from reconciler.source.yaml.documents import load
from reconciler.state import Desired, Hold, ObjectKey
from reconciler.state.reports.status import Condition, ObjectStatus
from tests.e2e.cluster import MODEL, deployment

COMMIT = "1f0c2a9b3d" + "0" * 30
KEY = ObjectKey("ModelDeployment", "tiny")
SEEN, _ = answered(Standing(GitRepositorySpec(url="/srv/c.git"), 0.0), Look(COMMIT, moved=True), 10.0)
FILES = {"a.yaml": f"{MODEL}---\n{deployment('tiny', 1)}".encode()}
APPLIED = replace(
    Desired.of(COMMIT, (document.manifest for document in load(FILES, part=True))), generations={KEY: 2}
)


def status(generation: int, **conditions: str) -> dict[ObjectKey, ObjectStatus]:
    found = tuple(
        Condition(name, bool(text), "Reason", text, 0.0, generation) for name, text in conditions.items()
    )
    return {KEY: ObjectStatus(found, generation)}


def told(
    desired: Desired, statuses: dict[ObjectKey, ObjectStatus], standing: Standing = SEEN
) -> Verdict | None:
    return verdict(standing, desired, statuses)


def test_a_commit_is_pending_until_its_deployments_are_ready_by_what_is_known_of_it() -> None:
    assert told(Desired("old"), {}) == Verdict(COMMIT, "pending", "seen")
    assert told(APPLIED, {}) == Verdict(COMMIT, "pending", "in force, and not ready yet")
    assert told(APPLIED, status(1, Ready="of before")) == Verdict(
        COMMIT, "pending", "in force, and not ready yet"
    )
    assert told(APPLIED, status(1, Stalled="of before")) == Verdict(
        COMMIT, "pending", "in force, and not ready yet"
    )
    assert told(APPLIED, status(2, Ready="yes", Reconciling="more")) == Verdict(
        COMMIT, "pending", "in force, and not ready yet"
    )
    assert told(APPLIED, status(2, Ready="yes", Reconciling="")) == Verdict(
        COMMIT, "success", "in force, and ready: 1 deployment"
    )


def test_a_commit_has_failed_if_it_is_refused_or_held_or_does_not_come_up() -> None:
    refused, _ = answered(SEEN, Look(COMMIT, refusal="1 problem:\n  a.yaml:1:1: wrong"), 10.0)
    assert told(Desired("old"), {}, refused) == Verdict(
        COMMIT, "failure", "refused: 1 problem: a.yaml:1:1: wrong"
    )
    held = Desired("old", hold=Hold(COMMIT, (KEY,), 2))
    assert told(held, {}) == Verdict(
        COMMIT, "failure", "held: it would remove 1 of 2 objects; reconciler approve 1f0c2a9b3d"
    )
    stalled = status(2, Ready="", Stalled="set back to the last\nspec that served")
    assert told(APPLIED, stalled) == Verdict(
        COMMIT, "failure", "in force, but tiny is stalled: set back to the last spec that served"
    )


def test_nothing_is_told_before_the_first_look() -> None:
    assert verdict(None, APPLIED, {}) is None
    assert verdict(Standing(GitRepositorySpec(url="/srv/c.git"), 0.0), APPLIED, {}) is None


def test_a_plan_is_written_so_that_nothing_in_it_is_markdown() -> None:
    body = {
        "removes": ["node/a"],
        "of": 4,
        "held": True,
        "plan": {
            "steps": [{"text": "start <img src=x> @everyone", "object": None}],
            "waiting": [],
            "refused": [
                {"text": f"no room {number}", "object": "modeldeployment/tiny"} for number in range(100)
            ],
        },
    }
    text = comment.planned(COMMIT, body)
    assert "**Removes 1 of 4 objects**\n\n- node/a" in text
    assert r"- start \<img src=x\> \@everyone" in text
    assert "- modeldeployment/tiny: no room 0\n" in text
    assert "- and 40 more" in text
    nothing = {"removes": [], "of": 4, "held": False, "plan": {"steps": [], "waiting": [], "refused": []}}
    assert "Nothing: what runs already agrees" in comment.planned(COMMIT, nothing)
    assert comment.invalid(COMMIT, "a.yaml:1:1: ``` wrong").count("```") == 2
