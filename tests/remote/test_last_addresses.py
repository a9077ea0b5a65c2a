"""The last addresses of machines, as a controller that starts again finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.remote.ssh.last_addresses import MACHINES_MAX, LastAddresses

LOGIN = "ada@mini-1.local"


def test_what_was_kept_is_known_after_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = LastAddresses(tmp_path / "known")
    assert kept.of(LOGIN) is None
    kept.keep(LOGIN, "10.0.0.1")
    kept.keep(LOGIN, "10.0.0.2")
    kept.keep("ada@behind", "")
    again = LastAddresses(tmp_path / "known")
    assert (again.of(LOGIN), again.of("ada@behind"), again.of("bob@mini-1.local")) == ("10.0.0.2", "", None)
    assert (tmp_path / "known").stat().st_mode & 0o777 == 0o600
    assert caplog.text == "", "a first start is no reason for a warning"


def test_the_newest_are_kept(tmp_path: Path) -> None:
    known = LastAddresses()
    for number in range(MACHINES_MAX):
        known.keep(f"ada@m{number}", "10.0.0.1")
    known.keep("ada@m0", "10.0.0.2")
    known.keep(LOGIN, "10.0.0.3")
    assert [known.of(name) for name in ("ada@m0", "ada@m1", "ada@m2", LOGIN)] == [
        "10.0.0.2", None, "10.0.0.1", "10.0.0.3"
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "{", "\xff"], ids=["empty", "cut off", "no text"])
def test_a_file_that_cannot_be_read_is_ignored_and_said_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path = tmp_path / "known"
    path.write_bytes(text.encode("latin-1"))
    known = LastAddresses(path)
    assert f"{path} is ignored" in caplog.text
    known.keep(LOGIN, "10.0.0.1")
    assert LastAddresses(path).of(LOGIN) == "10.0.0.1"


@pytest.mark.parametrize("text", ["[]", '{"ada@mini-1.local": 1}'], ids=["a list", "a number"])
def test_what_is_no_address_is_not_known(tmp_path: Path, text: str) -> None:
    (tmp_path / "known").write_text(text)
    assert LastAddresses(tmp_path / "known").of(LOGIN) is None


def test_addresses_are_known_where_they_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = LastAddresses(tmp_path / "missing" / "known")
    known.keep(LOGIN, "10.0.0.1")
    assert known.of(LOGIN) == "10.0.0.1"
    assert "cannot write" in caplog.text
