"""`history`: the commits with what became of them, and one of them with its diff."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli, Controller


def test_commits_are_listed_with_what_became_of_them(cli: Cli, controller: Controller) -> None:
    header, line = cli("history").out.splitlines()
    assert header.split() == ["REVISION", "AGE", "STATE", "AUTHOR", "OBJECTS", "CHANGE"]
    assert line.split()[:5] == ["5d0f0a9c2f", "90m", "InForce", "Ada", "modeldeployment/tiny"]
    assert json.loads(cli("history", "-o", "json").out)["items"] == controller.answers["commits"]["items"]


def test_a_commit_is_shown_as_a_diff_with_what_takes_it_back(cli: Cli, controller: Controller) -> None:
    lines = cli("history", "5d0f0a9c2f").out.splitlines()
    assert "-  replicas: 1" in lines
    assert "+  replicas: 2" in lines
    assert lines[-1] == "  reconciler rollout undo modeldeployment/tiny --to-revision=1f0c2a9b3d"


def test_nothing_in_a_commit_reaches_the_terminal_as_a_command(cli: Cli, controller: Controller) -> None:
    controller.answers["commit"]["files"][0]["lines"] = ["+\x1b[2Jgone"]
    controller.answers["commit"]["message"] = "\x1b]0;owned\x07"
    assert "\x1b" not in cli("history", "5d0f0a9c2f").out


def test_a_folder_that_is_watched_has_no_history(cli: Cli, controller: Controller) -> None:
    problem = "the controller reads directory /x, which has no commits"
    controller.answers["commits"] = {"version": "1", "items": [], "problem": problem}
    assert cli("history").err == f"error: {problem}\n"
