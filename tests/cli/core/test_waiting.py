"""`wait` as kubectl has it, on a real controller."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from reconciler.cli.commands.read.wait import Goal
from reconciler.errors import Refused
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller
from tests.cli.live import Live, live, manifest, running, wait_for


@pytest.fixture(scope="module")
def cluster() -> Iterator[Live]:
    with live() as made:
        yield made


def test_a_condition_that_is_met_is_said_and_one_that_is_not_times_out(cluster: Live) -> None:
    done = cluster.run("wait", "node/node-a", "--for=condition=ready", "--timeout=80s")
    assert (done.returncode, done.stdout) == (0, "node.reconciler/node-a condition met\n")
    done = cluster.run("wait", "md", "tiny", "big", "--for", "condition=Ready", "--timeout=0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "error: timed out waiting for the condition on modeldeployments/tiny",
        "error: timed out waiting for the condition on modeldeployments/big",
    ]


def test_goals_are_reached_in_their_order(cluster: Live) -> None:
    done = cluster.run(
        "wait", "-l", "tier=test", "md",
        "--for=condition=Stalled", "--for=condition=Ready=False", "--for=jsonpath={.spec.model}=tiny",
        "--for=jsonpath={.status.observedGeneration}", "--timeout=80s",
    )  # fmt: skip
    assert done.stdout == "modeldeployment.reconciler/big condition met\n" * 4
    assert done.returncode == 0


def test_who_waits_for_an_object_sees_it_come_and_go(cluster: Live) -> None:
    with running(cluster, "wait", "model/new", "--for=create", "--for=delete", "--timeout=-1s") as waiting:
        time.sleep(0.5)
        text = manifest("tiny-model").replace("name: tiny}", "name: new}")
        cluster.apply(text)
        waiting.wait_for(lambda lines: len(lines) == 1)
        cluster.remove("new")
        assert waiting.wait() == 0
        assert waiting.out == ["model.reconciler/new condition met"] * 2


@pytest.mark.second_tier
def test_a_wait_says_after_two_seconds_what_it_waits_for_and_lives_through_a_restart(cluster: Live) -> None:
    goal = "--for=jsonpath={.spec.serving.context}=512"
    with running(cluster, "wait", "md/tiny", goal, "--timeout=110s") as waiting:
        wait_for(lambda: any("waiting for modeldeployments/tiny: Stalled:" in line for line in waiting.err))
        cluster.kill()
        wait_for(lambda: any("the controller has ended" in line for line in waiting.err))
        cluster.start()
        cluster.apply(manifest("tiny").replace("model: tiny}", "model: tiny, serving: {context: 512}}"))
        assert waiting.wait() == 0
        assert waiting.out == ["modeldeployment.reconciler/tiny condition met"]


@pytest.mark.second_tier
def test_a_controller_that_stays_away_is_an_error_at_the_end_of_the_time(cluster: Live) -> None:
    with running(cluster, "wait", "md/tiny", "--for=condition=Ready", "--timeout=4s") as waiting:
        wait_for(lambda: any("waiting for" in line for line in waiting.err))
        cluster.kill()
        assert waiting.wait() == 1
        assert "error: timed out waiting for the condition on modeldeployments/tiny" in waiting.err
    cluster.start()


# --- goals -----------------------------------------------------------------------------------------


def test_a_condition_of_an_older_spec_does_not_count() -> None:
    item = bodies.deployment()
    assert Goal("Ready").met(item)
    item["metadata"]["generation"] = 2
    assert not Goal("Ready").met(item)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("md/tiny",), "Missing option '--for'"),
        (("md/tiny", "--for=ready"), "--for=condition=Ready"),
        (("md/tiny", "--for=there"), "expected condition=NAME[=VALUE], delete"),
        (("md/tiny", "--for=condition="), "cannot wait for"),
        (("md/tiny", "--for=jsonpath={.a"), "expected }"),
        (("md/tiny", "--for=jsonpath={.a}b"), "expected =VALUE after the path"),
        (("md/tiny", "--for=jsonpath={.a}="), "expected =VALUE after the path"),
        (("md/tiny", "--for=delete", "--timeout=soon"), '"soon" is not a duration'),
        (("md", "--for=delete"), "expected KIND/NAME..., KIND NAME..., KIND --all or KIND -l SELECTOR"),
        (("md/tiny", "--all", "--for=delete"), "expected KIND/NAME..."),
    ],
)
def test_what_cannot_be_waited_for_is_wrong_usage(
    arguments: tuple[str, ...], message: str, cli: Cli, controller: Controller
) -> None:
    result = cli("wait", *arguments)
    assert (result.code, message in result.err) == (2, True), result.err


def test_what_is_not_there_is_waited_for_only_to_come_or_to_be_gone(cli: Cli, controller: Controller) -> None:
    missing = cli("wait", "md/tinny", "--for=condition=Ready")
    assert (missing.code, missing.err) == (
        1,
        'error: modeldeployments "tinny" not found; did you mean "tiny"?\n',
    )
    assert cli("wait", "md/tinny", "--for=delete").out == "modeldeployment.reconciler/tinny condition met\n"
    assert cli("wait", "md/tinny", "--for=create", "--timeout=0").code == 1
    nobody = cli("wait", "md", "-l", "no=such", "--for=condition=Ready")
    assert (nobody.code, nobody.err) == (1, "error: no matching resources found\n")


def test_a_goal_is_reached_once_even_if_it_is_lost_again(cli: Cli, controller: Controller) -> None:
    """AND in order: what was met need not hold while the next is waited for."""
    looks = iter([True, True, False])

    def flapping(message: object) -> object:
        item = bodies.deployment()
        ready = next(looks, False)
        item["status"]["conditions"] = bodies.conditions(ready=ready)
        return {"version": str(ready), "revision": "1", "items": [item]}

    controller.answers["get"] = flapping
    result = cli("wait", "md/tiny", "--for=condition=Ready", "--for=condition=Ready=False", "--timeout=60s")
    assert result.out == "modeldeployment.reconciler/tiny condition met\n" * 2


def test_a_controller_that_knows_no_revision_proves_no_deletion(cli: Cli, controller: Controller) -> None:
    controller.answers["get"] = {"version": "1", "revision": "", "items": []}
    result = cli("wait", "md/tiny", "--for=delete", "--timeout=200ms")
    assert (result.code, result.out) == (1, "")


def test_a_refusal_ends_a_wait(cli: Cli, controller: Controller) -> None:
    controller.answers["get"] = Refused("Gone", "that is all")
    assert cli("wait", "md/tiny", "--for=delete").err == "error: that is all\n"
