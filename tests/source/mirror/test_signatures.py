"""Signed commits: real keys of ssh-keygen, signed by real git."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import Invalid
from tests.needs import needing
from tests.source.conftest import NODE, Person
from tests.sshd import make_key

from .conftest import Home, pushed, sent

pytestmark = pytest.mark.second_tier


@pytest.fixture
@needing("ssh-keygen")
def signing(follower: Home, remote: Person, tmp_path: Path) -> Person:
    """The person's commits are signed with a key that the home allows."""
    public = make_key(tmp_path / "bea")
    (tmp_path / "signers").write_text(f"bea@example.org {public}\n")
    follower.body["verify"] = {"allowedSigners": str(tmp_path / "signers")}
    for name, value in (
        ("gpg.format", "ssh"),
        ("user.signingkey", str(tmp_path / "bea.pub")),
        ("commit.gpgsign", "true"),
    ):
        remote.git("config", name, value)
    return remote


def test_signed_commits_are_taken(follower: Home, signing: Person) -> None:
    pushed(signing, NODE)
    tip = pushed(signing, NODE + "# more\n")
    assert follower.look().moved
    assert follower.head == tip


def test_an_unsigned_commit_under_a_signed_tip_is_refused(follower: Home, signing: Person) -> None:
    good = pushed(signing, NODE)
    follower.look()
    signing.git("config", "commit.gpgsign", "false")
    hidden = pushed(signing, NODE.replace("name: a", "name: evil"), "b.yaml")
    signing.git("config", "commit.gpgsign", "true")
    pushed(signing, NODE + "# signed\n")
    assert f"{hidden[:10]}: it is not signed; every commit" in follower.look().refusal
    assert follower.head == good


def test_an_unsigned_commit_of_a_merged_branch_is_refused(follower: Home, signing: Person) -> None:
    good = pushed(signing, NODE)
    follower.look()
    signing.git("checkout", "--quiet", "-b", "side")
    signing.git("config", "commit.gpgsign", "false")
    signing.commits(NODE.replace("name: a", "name: evil"), "b.yaml")
    signing.git("config", "commit.gpgsign", "true")
    signing.git("checkout", "--quiet", "main")
    status, output = signing.git("merge", "--quiet", "--no-ff", "--message", "merge", "side")
    assert status == 0, output
    sent(signing)
    assert "it is not signed" in follower.look().refusal
    assert follower.head == good


def test_the_key_of_somebody_else_is_refused(follower: Home, signing: Person, tmp_path: Path) -> None:
    make_key(tmp_path / "eve")
    signing.git("config", "user.signingkey", str(tmp_path / "eve.pub"))
    pushed(signing, NODE)
    assert "its signer is not among the allowed signers" in follower.look().refusal
    assert follower.head is None


def test_signatures_may_begin_after_a_commit(follower: Home, signing: Person) -> None:
    signing.git("config", "commit.gpgsign", "false")
    old = pushed(signing, NODE)
    signing.git("config", "commit.gpgsign", "true")
    tip = pushed(signing, NODE + "# signed\n")
    assert f"{old[:10]}: it is not signed" in follower.look().refusal
    follower.body["verify"]["since"], follower.last = old, None
    assert follower.look().moved
    assert follower.head == tip


def test_a_branch_without_the_commit_after_which_signatures_begin_is_not_taken(
    follower: Home, signing: Person
) -> None:
    pushed(signing, NODE)
    follower.body["verify"]["since"] = "1" * 40
    with pytest.raises(Invalid, match=r"the commit 1{40} of verify.since is not in this branch"):
        follower.look()
    assert follower.head is None


def test_signers_that_cannot_be_read_let_nothing_in(follower: Home, signing: Person, tmp_path: Path) -> None:
    pushed(signing, NODE)
    (tmp_path / "signers").unlink()
    with pytest.raises(Invalid, match="the file of the allowed signers"):
        follower.look()
    assert follower.head is None
