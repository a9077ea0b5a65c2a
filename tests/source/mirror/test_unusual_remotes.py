"""Remotes that git reaches in other ways than most: redirected, of another format, with a past, and with tokens by hand."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.errors import Invalid
from reconciler.source.git.bundles import read_bundle, write_bundle
from tests.examples import examples
from tests.git_server import git_server
from tests.source.conftest import NODE, Person

from .conftest import Home, pushed

pytestmark = pytest.mark.processes

TOKEN = "gh-t0ken"


REDIRECTS = {
    "a renamed repository": (
        "http://127.0.0.1:{port}/renamed.git/info/refs?service=git-upload-pack",
        "to follow that: reconciler source set http://127.0.0.1:{port}/renamed.git",
    ),
    "its path alone": ("/renamed.git/info/refs", "to follow that: reconciler source set http://127.0.0.1:{port}/renamed.git"),
    "a page to log in": (
        "https://sso.example.org/login?back=s3cret",
        "https://sso.example.org/login, which is no repository",
    ),
    "a page with a long query": (
        "https://sso.example.org/login?saml=" + "s3cret" * 2000,
        "https://sso.example.org/login, which is no repository",
    ),
    "nothing to follow without encryption": (
        "http://git.example.org/a.git/info/refs",
        "which cannot be followed: http to another machine can be",
    ),
    "itself": ("/remote.git/info/refs?service=git-upload-pack", "which is the same URL: a loop"),
    "itself by a fragment": ("#s3cret", "which is the same URL: a loop"),
    **{
        f"no URL: {shown}": (location, "names no URL to follow")
        for shown, location in {
            "nothing": "", "a mail": "mailto:s3cret@example.org",
            "a script": "javascript:s3cret()", "a file": "file:///etc/s3cret/info/refs", "half an address": "http://[::1/s3cret",
            "a port of letters": "https://git.example.org:s3cret/info/refs", "a port too high": "https://git.example.org:99999/s3cret",
            "what terminals obey": "https://git.example.org/\x1b]0;s3cret\x07/info/refs", "ssh": "ssh://git@example.org/s3cret",
            "no end": "https://git.example.org/" + "a" * 5000 + "/info/refs",
        }.items()
    },
}  # fmt: skip
"""What a redirect leads to, and what of it is said."""


HOSTS = ("git.example.org", "GIT.Example.org", "127.0.0.1", "[::1]", "[2001:DB8::7]", "xn--bcher-kva.example")
PATHS = ("/all.git", "/team/all", "/a%20b/c.git", "/~bea/all.git", "/info/refs/all.git", "/it's;all.git")
ENDS = ("/info/refs", "/git-upload-pack", "/info/refs/")
HIDDEN = ("", "?service=git-upload-pack&key=s3cret", "#s3cret")


STATUSES = (300, 301, 302, 303, 307, 308, 399)


@pytest.mark.parametrize("kind", REDIRECTS)
def test_a_redirect_is_for_a_person_whatever_it_leads_to(
    follower: Home, remote: Person, tmp_path: Path, kind: str
) -> None:
    leads, says = REDIRECTS[kind]
    with git_server(tmp_path) as server:
        follower.body["url"] = f"http://127.0.0.1:{server.port}/remote.git"
        server.location = leads.format(port=server.port) or " "
        server.status = STATUSES[list(REDIRECTS).index(kind) % len(STATUSES)]
        assert says.format(port=server.port) in redirected(follower, server.status)


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_redirect_to_a_repository_names_the_url_to_set(
    follower: Home, remote: Person, tmp_path: Path, data: st.DataObject
) -> None:
    def one(*choices: str) -> str:
        return data.draw(st.sampled_from(choices))

    scheme, user = one("https", "HTTPS"), one("", "bea:s3cret@", "s3cret@")
    host, port, path = one(*HOSTS), one("", ":443", ":8443"), one(*PATHS)
    with git_server(tmp_path) as server:
        follower.body["url"] = f"http://127.0.0.1:{server.port}/remote.git"
        server.location = f"{scheme}://{user}{host}{port}{path}{one(*ENDS)}{one(*HIDDEN)}"
        server.status = data.draw(st.sampled_from(STATUSES))
        _, _, command = redirected(follower, server.status).partition("to follow that: ")
        assert shlex.split(command) == ["reconciler", "source", "set", f"https://{host.lower()}{port}{path}"]


def redirected(follower: Home, status: int) -> str:
    """Return what is said of a redirect; nothing of it is followed or kept, and no secret is told."""
    for at_once in (True, False):
        with pytest.raises(Invalid) as told:
            follower.look(at_once)
        text = str(told.value)
        assert f"the server answers {status} and names " in text
        assert "s3cret" not in text
        assert text.isprintable()
        assert (follower.head, follower.left()) == (None, [])
    return text


def test_a_page_to_log_in_and_a_missing_repository_are_for_a_person(
    follower: Home, remote: Person, tmp_path: Path
) -> None:
    with git_server(tmp_path) as server:
        follower.body["url"] = f"http://127.0.0.1:{server.port}/none.git"
        with pytest.raises(Invalid, match="there is no such repository, or whoever asks may not read it"):
            follower.look()
        server.page = b"<html><form>Log in</form></html>"
        with pytest.raises(Invalid, match="the server answers with a page, and not as git does"):
            follower.look()


@pytest.mark.parametrize("at_once", [True, False])
def test_a_remote_of_sha_256_is_one_sentence_for_a_person(
    follower: Home, tmp_path: Path, at_once: bool
) -> None:
    subprocess.run(
        ["git", "init", "-q", "--bare", "--object-format=sha256", "-b", "main", tmp_path / "other.git"],
        check=True,
    )
    work = Person(tmp_path / "other")
    subprocess.run(["git", "init", "-q", "--object-format=sha256", "-b", "main", work.clone], check=True)
    work.git("remote", "add", "origin", str(tmp_path / "other.git"))
    for name in ("name", "email"):
        work.git("config", f"user.{name}", "bea@example.org")
    pushed(work, NODE)
    follower.body["url"] = str(tmp_path / "other.git")
    with pytest.raises(Invalid, match="names of SHA-256, and only those of SHA-1 can be followed"):
        follower.look(at_once)


PAST = {
    "an entry with a zero before its mode": ("tree", b"040000 sub\0" + bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904")),
    "a commit without an address": ("commit", b"tree {tree}\nauthor bea 1700000000 +0000\ncommitter bea 1700000000 +0000\n\nold\n"),
    "a date before time": ("commit", b"tree {tree}\nauthor b <b@e> 00 +0000\ncommitter b <b@e> 00 +0000\n\nold\n"),
    "a zone that is none": ("commit", b"tree {tree}\nauthor b <b@e> 1 +51800\ncommitter b <b@e> 1 +51800\n\nold\n"),
    "a name with brackets": ("commit", b"tree {tree}\nauthor b <<b@e>> 1 +0000\ncommitter b <b@e> 1 +0000\n\nold\n"),
}  # fmt: skip


@pytest.mark.parametrize("flaw", PAST)
def test_what_lies_broken_years_back_hinders_nobody(
    follower: Home, remote: Person, tmp_path: Path, flaw: str
) -> None:
    def written(kind: str, body: bytes) -> str:
        command = ["git", "hash-object", "-w", "--literally", "-t", kind, "--stdin"]
        made = subprocess.run(command, cwd=remote.clone, input=body, capture_output=True, check=True)
        return made.stdout.decode().strip()

    written("tree", b"")
    kind, body = PAST[flaw]
    found = written(kind, body.replace(b"{tree}", written("tree", b"").encode()))
    if kind == "tree":
        made = remote.git("-c", "user.name=b", "-c", "user.email=b@e", "commit-tree", "-m", "old", found)
        found = made[1].strip()
    assert remote.git("reset", "--soft", found)[0] == 0
    newest = pushed(remote, NODE, "clusters/studio/a.yaml")
    follower.body["path"] = "clusters/studio"
    assert follower.look().moved
    assert follower.head == newest
    write_bundle(follower.repo.path, tmp_path / "bundle")
    assert read_bundle(tmp_path / "bundle", tmp_path / "restored.git").head() == newest


BY_HAND = {
    "plain": TOKEN.encode(),
    "a line": f"{TOKEN}\n".encode(),
    "of Windows": f"{TOKEN}\r\n".encode(),
    "with a mark": b"\xef\xbb\xbf" + f"{TOKEN}\r\n".encode(),
    "with blanks": f"  {TOKEN} \t\n\n".encode(),
    "after an empty line": f"\n\r\n{TOKEN}\n".encode(),
}
NOT_ONE = {
    "empty": b" \r\n",
    "two lines": f"{TOKEN}\nmore\n".encode(),
    "a letter that no header carries": "gh-t0kén\n".encode(),
}


@pytest.mark.parametrize("way", BY_HAND)
def test_a_token_is_read_however_it_was_saved(
    follower: Home, remote: Person, tmp_path: Path, way: str
) -> None:
    pushed(remote, NODE)
    (tmp_path / "token").write_bytes(BY_HAND[way])
    with git_server(tmp_path, TOKEN) as server:
        follower.body["url"] = f"http://127.0.0.1:{server.port}/remote.git"
        follower.body["secretRef"] = {"token": {"file": str(tmp_path / "token")}}
        assert follower.look().moved
        follower.body["secretRef"] = {"token": {"env": "TOKEN_HERE"}}
        follower.environ["TOKEN_HERE"] = BY_HAND[way].decode("utf-8-sig")
        assert not follower.look().moved


@pytest.mark.parametrize("flaw", NOT_ONE)
def test_a_file_that_is_no_token_is_named(follower: Home, tmp_path: Path, flaw: str) -> None:
    (tmp_path / "token").write_bytes(NOT_ONE[flaw])
    follower.body["url"] = "http://127.0.0.1:9/remote.git"
    follower.body["secretRef"] = {"token": {"file": str(tmp_path / "token")}}
    with pytest.raises(Invalid, match=str(tmp_path / "token")):
        follower.look()


HOSTILE = [
    {"init.defaultBranch": "trunk", "init.defaultObjectFormat": "sha256", "init.defaultRefFormat": "reftable"},
    {"core.autocrlf": "true", "core.eol": "crlf", "core.safecrlf": "true", "core.quotePath": "true"},
    {"core.hooksPath": "/nowhere", "core.fsmonitor": "/bin/false", "core.pager": "/bin/false"},
    {"commit.gpgSign": "true", "tag.gpgSign": "true", "push.gpgSign": "true", "gpg.program": "/bin/false"},
    {"transfer.fsckObjects": "true", "fetch.fsckObjects": "true", "fetch.prune": "true", "fetch.recurseSubmodules": "true"},
    {"protocol.allow": "never", "protocol.file.allow": "never", "protocol.http.allow": "never"},
    {"log.showSignature": "true", "log.date": "relative", "log.decorate": "full", "format.pretty": "oneline"},
    {"color.ui": "always", "color.diff": "always", "diff.external": "/bin/false", "diff.noprefix": "true"},
    {"i18n.commitEncoding": "ISO-8859-1", "i18n.logOutputEncoding": "UTF-16", "core.precomposeUnicode": "true"},
    {"push.default": "nothing", "push.followTags": "true", "push.recurseSubmodules": "check"},
    {"user.useConfigOnly": "true", "safe.directory": "", "safe.bareRepository": "explicit"},
    {"http.proxy": "http://127.0.0.1:9", "http.extraHeader": "X: y", "credential.helper": "!false"},
    {"diff.renames": "copies", "diff.algorithm": "patience", "merge.conflictStyle": "zdiff3", "core.abbrev": "4"},
]  # fmt: skip
VARIABLES = {
    "GIT_DEFAULT_HASH": "sha256", "GIT_DIR": "/nowhere", "GIT_WORK_TREE": "/nowhere", "GIT_INDEX_FILE": "/nowhere",
    "GIT_AUTHOR_DATE": "nonsense", "GIT_COMMITTER_EMAIL": "", "GIT_PAGER": "/bin/false", "GIT_LITERAL_PATHSPECS": "1",
    "GIT_ALLOW_PROTOCOL": "none", "LANG": "de_DE.UTF-8", "LANGUAGE": "de", "LC_MESSAGES": "fr_FR.UTF-8",
}  # fmt: skip


def configuration(settings: dict[str, str]) -> str:
    """The text of a file with settings."""
    lines: list[str] = []
    for name, value in settings.items():
        section, _, rest = name.partition(".")
        inner, _, key = rest.rpartition(".")
        lines += (f'[{section} "{inner}"]' if inner else f"[{section}]", f"{key} = {value}")
    return "\n".join((*lines, ""))


def every_setting(value: str) -> dict[str, str]:
    """All settings that the present git knows, with one value."""
    listed = subprocess.run(
        ["git", "help", "--config"], capture_output=True, check=True, text=True, timeout=60
    )
    names = re.findall(r"^[a-zA-Z][\w.*<>-]*\.[\w.*<>-]+$", listed.stdout, re.MULTILINE)
    return {re.sub(r"<[^>]*>|\*", "main", name): value for name in names if not name.startswith("include")}


def all_settings(value: str) -> str:
    return configuration(every_setting(value))


def every_variable() -> list[str]:
    """All variables that the present git knows, by its program."""
    folder = subprocess.run(["git", "--exec-path"], capture_output=True, check=True, text=True, timeout=60)
    program = (Path(folder.stdout.strip()) / "git").read_bytes()
    return sorted({name.decode() for name in re.findall(rb"(?<=\0)GIT_[A-Z0-9_]+(?=\0)", program)})


CONFIGURATIONS: dict[str, Callable[[], str]] = {
    **{f"of a user {number}": partial(configuration, settings) for number, settings in enumerate(HOSTILE)},
    **{f"all {value}": partial(all_settings, value) for value in ("true", "no", "nonsense", "/nowhere/file")},
    "no configuration": lambda: "[core\n",
}  # fmt: skip


def test_the_git_that_is_here_knows_hundreds_of_settings_and_variables() -> None:
    assert len(every_setting("")) > 400
    assert len(every_variable()) > 80


@pytest.mark.second_tier
@pytest.mark.parametrize("which", CONFIGURATIONS)
def test_no_configuration_of_a_user_changes_what_is_read(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconciler.source.git import hooks
    from reconciler.source.git.copies import Copy
    from reconciler.source.git.going_back import undo
    from reconciler.source.git.history import changes
    from reconciler.source.git.repository import OPERATIONS, Author, ClusterRepo
    from tests.source.mirror.conftest import made_remote

    remote = made_remote(tmp_path / "remote.git")
    first = pushed(remote, NODE)
    person = tmp_path / "person"
    (person / "git").mkdir(parents=True)
    elsewhere = f'[url "{tmp_path}/other"]\ninsteadOf = {tmp_path}\n'
    (person / ".gitconfig").write_text(elsewhere + CONFIGURATIONS[which]())
    (person / "git" / "attributes").write_text("* text eol=crlf merge=binary diff=none ident\n")
    for name in every_variable():
        monkeypatch.setenv(name, "nonsense")
    for name, value in {**VARIABLES, "HOME": str(person), "XDG_CONFIG_HOME": str(person)}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "home").mkdir()
    own = ClusterRepo.create(tmp_path / "home" / "cluster.git", hooks.command())
    following = Home(own, {"url": str(tmp_path / "remote.git")})
    assert (following.look().revision, following.head) == (first, first)
    assert own.read(first) == {"a.yaml": NODE.encode()}
    own.configure("", "")
    author = Author("Ünal", "u@example.org")
    changed = NODE.replace("local: {}", "local: {}\n  unschedulable: true").encode()
    second = own.commit(first, {"a.yaml": changed}, "Ändern ✓", author)
    found = undo(own, own.read(second), ("Node", "a"))
    assert found.edit.changes == {"a.yaml": NODE.encode()}
    assert [(each.commit.revision, each.commit.author) for each in changes(own, ("Node", "a"))] == [
        (second, "Ünal"),
        (first, "bea"),
    ]
    own.commit(None, {"x.yaml": b""}, "an operation", author, OPERATIONS)
    copy = Copy(tmp_path / "copy.git", url=str(own.path))
    copy.fetch()
    assert copy.head() == second
    assert write_bundle(own.path, tmp_path / "bundle") == second
    assert read_bundle(tmp_path / "bundle", tmp_path / "restored.git").head(OPERATIONS) == own.head(
        OPERATIONS
    )
