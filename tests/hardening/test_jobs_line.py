"""The line of sudoers for jobs."""

from __future__ import annotations

import pytest

from reconciler.hardening.sudoers import jobs_line
from reconciler.planning.nodes.root_commands import RootCommands
from reconciler.remote.bootstrap import rights
from reconciler.remote.bootstrap.profile import MARK
from reconciler.remote.bootstrap.rights import TOO_MUCH


def test_it_names_both_users() -> None:
    assert jobs_line("cluster", "jobs") == "cluster ALL=(jobs) NOPASSWD: ALL"


@pytest.mark.parametrize(
    ("user", "jobs_user"),
    [("cluster", "root"), ("cluster", "ALL"), ("cluster", "%admin"), ("a,b", "jobs"), ("cluster", "a) ALL")],
)
def test_a_name_that_means_more_than_one_user_without_rights_is_refused(user: str, jobs_user: str) -> None:
    with pytest.raises(ValueError, match=r"use|name a user"):
        jobs_line(user, jobs_user)


@pytest.mark.parametrize(("said", "refused"), [("", True), (f"{MARK} allows {len(TOO_MUCH)}\n", False)])
def test_a_missing_line_is_told(said: str, refused: bool) -> None:
    needed = RootCommands((), (), "jobs")

    found = rights.answer(needed, said)

    assert "-u jobs /bin/sh" in rights.question(needed)[2]
    assert found.jobs_refused is refused
    assert any("programs of jobs as jobs" in text for text in rights.texts("cluster", found)) is refused
    assert rights.lines("cluster", found) == ("cluster ALL=(jobs) NOPASSWD: ALL",)
