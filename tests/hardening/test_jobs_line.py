"""The line of sudoers for jobs."""

from __future__ import annotations

import pytest

from reconciler.hardening.sudoers import jobs_line


def test_it_names_both_users() -> None:
    assert jobs_line("cluster", "jobs") == "cluster ALL=(jobs) NOPASSWD: ALL"


@pytest.mark.parametrize(
    ("user", "jobs_user"),
    [("cluster", "root"), ("cluster", "ALL"), ("cluster", "%admin"), ("a,b", "jobs"), ("cluster", "a) ALL")],
)
def test_a_name_that_means_more_than_one_user_without_rights_is_refused(user: str, jobs_user: str) -> None:
    with pytest.raises(ValueError, match=r"use|name a user"):
        jobs_line(user, jobs_user)
