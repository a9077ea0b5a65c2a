"""Files of a certificate that cannot be used are named, with what is wrong with each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.errors import Invalid
from reconciler.serving.certificates import Certificates, load
from reconciler.wire.gateway import Tls
from tests.certificates import made


def gone(path: Path) -> None:
    path.unlink()


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("put the certificate here")


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 10)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])


def other(path: Path) -> None:
    """That of somebody else."""
    path.write_bytes(made()[path.name == "key.pem"])


def swapped(path: Path) -> None:
    """What belongs into the other file."""
    path.write_bytes(made()[path.name != "key.pem"])


def locked(path: Path) -> None:
    """A key with a password; a certificate has none."""
    certificate, key = made(password=b"word")
    path.write_bytes(key if path.name == "key.pem" else certificate[:30])


SPOILED = [gone, folder, pipe, device, loop, empty, text, binary, cut, other, swapped, locked]


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    certificate, key = made()
    (tmp_path / "chain.pem").write_bytes(certificate)
    (tmp_path / "key.pem").write_bytes(key)
    return Tls(str(tmp_path / "chain.pem"), str(tmp_path / "key.pem"))


@pytest.mark.parametrize("name", ["chain.pem", "key.pem"])
@pytest.mark.parametrize("spoil", SPOILED)
def test_a_file_that_cannot_be_used_is_named(
    tls: Tls, tmp_path: Path, name: str, spoil: Callable[[Path], None]
) -> None:
    load(tls)
    spoil(tmp_path / name)
    with pytest.raises(Invalid) as refused:
        load(tls)
    assert str(tmp_path / name) in str(refused.value)
    assert len(str(refused.value).replace(str(tmp_path), "").split()) >= 4, "and what is wrong with it"
    followed = Certificates()
    assert followed.follow(tls)
    assert (followed.wanted, followed.context, followed.problem) == (True, None, str(refused.value))
