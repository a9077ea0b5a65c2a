"""Remotes as they are: Debian's sshd, and git over HTTPS. Who is asked, with what, and who sees it."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.errors import Invalid, Unreachable
from tests.certificates import made
from tests.git_server import git_server, tls_of
from tests.ports import free_port
from tests.source.conftest import NODE, Person
from tests.sshd import make_key, sshd

from .conftest import Home, pushed

pytestmark = pytest.mark.second_tier


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    pem, key = made()
    (tmp_path / "tls.pem").write_bytes(pem)
    (tmp_path / "tls.key").write_bytes(key)
    return tmp_path / "tls.pem"


@contextlib.contextmanager
def over_https(follower: Home, certificate: Path, token: str = "t0ken") -> Iterator[list[str]]:
    folder = certificate.parent
    with git_server(folder, token, tls_of(certificate, folder / "tls.key")) as server:
        follower.body["url"] = f"https://localhost:{server.port}/remote.git"
        follower.body["caFile"] = str(certificate)
        yield server.asked


@pytest.mark.needs("sshd", "ssh")
async def test_over_ssh_with_the_named_key_and_a_pinned_host_key(
    follower: Home, remote: Person, tmp_path: Path
) -> None:
    tip = pushed(remote, NODE)
    key, known = tmp_path / "a key", tmp_path / "hosts 100%"
    async with sshd(tmp_path / "sshd", free_port()) as server:
        server.authorized.write_text(make_key(key) + "\n")
        machine = server.machine
        known.write_text(f"[127.0.0.1]:{machine.port} {machine.host_key}\n")
        follower.body["url"] = f"ssh://{getpass.getuser()}@127.0.0.1:{machine.port}{tmp_path}/remote.git"
        follower.body["secretRef"] = {"ssh": {"keyFile": str(key), "knownHostsFile": str(known)}}
        look = await asyncio.to_thread(follower.look)
        assert (look.revision, look.moved) == (tip, True)

        known.write_text(f"[127.0.0.1]:{machine.port} {' '.join(make_key(tmp_path / 'other').split()[:2])}\n")
        with pytest.raises(Invalid, match="another host key than the pinned file has"):
            await asyncio.to_thread(follower.look)
        assert server.distrusted() == 0
        assert server.logins() == 1

    known.write_text(f"[127.0.0.1]:{machine.port} {machine.host_key}\n")
    with pytest.raises(Unreachable):
        await asyncio.to_thread(follower.look)


def test_over_https_with_a_token_that_is_in_no_command_line(
    follower: Home, remote: Person, certificate: Path
) -> None:
    tip = pushed(remote, NODE)
    (certificate.parent / "token").write_text("t0ken\n")
    with over_https(follower, certificate) as asked:
        follower.body["secretRef"] = {"token": {"file": str(certificate.parent / "token")}}
        assert follower.look().moved
        assert follower.head == tip
        follower.body["secretRef"] = {"token": {"env": "CLUSTER_TOKEN"}}
        with pytest.raises(Invalid, match="has no CLUSTER_TOKEN"):
            follower.look()
        follower.environ["CLUSTER_TOKEN"] = "t0ken"
        assert not follower.look().moved
        assert not any("t0ken" in line for line in asked)


def test_a_wrong_token_is_for_a_person(follower: Home, remote: Person, certificate: Path) -> None:
    pushed(remote, NODE)
    follower.body["secretRef"] = {"token": {"env": "CLUSTER_TOKEN"}}
    follower.environ["CLUSTER_TOKEN"] = "s3cret-but-wrong"
    with over_https(follower, certificate), pytest.raises(Invalid, match="Authentication failed") as told:
        follower.look()
    assert "s3cret" not in str(told.value)


def test_a_redirect_is_not_followed(follower: Home, remote: Person, certificate: Path) -> None:
    """It could lead the token to another host."""
    pushed(remote, NODE)
    with git_server(certificate.parent) as elsewhere:
        folder = certificate.parent
        with git_server(folder, "", tls_of(certificate, folder / "tls.key")) as server:
            server.location = f"http://127.0.0.1:{elsewhere.port}/remote.git/info/refs"
            follower.body |= {
                "url": f"https://localhost:{server.port}/remote.git",
                "caFile": str(certificate),
            }
            with pytest.raises(Invalid, match="the server answers 302"):
                follower.look()
        assert elsewhere.asked == []


def test_a_certificate_that_nobody_vouches_for_is_refused(
    follower: Home, remote: Person, certificate: Path
) -> None:
    pushed(remote, NODE)
    with over_https(follower, certificate, ""):
        del follower.body["caFile"]
        with pytest.raises(Unreachable, match="certificate"):
            follower.look()
