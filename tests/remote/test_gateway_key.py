"""The gateway's key pair, and its line among those of others."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.remote.gateway_key import ensure_line, public_key, relay_line, without_key

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOurs"
LINE = relay_line(
    "/usr/bin/python3", "/home/a/.reconciler/agents/agent-1.pyz", "/home/a/.reconciler/run", KEY
)
OTHER = 'from="10.0.0.1",command="echo \\"hi there\\"" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAItheirs laptop'
others = st.lists(st.sampled_from([OTHER, "", "# a comment", f"# {KEY}", "ecdsa-sha2-nistp256 AAAAE2Vj me"]))


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "gateway"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: public_key(path), range(8)))
    assert len(keys) == 1
    assert keys == {public_key(path)}
    assert keys.pop().startswith("ssh-ed25519 AAAA")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["gateway"]


def test_the_line_runs_the_relay_and_restricts_everything_else() -> None:
    expected = (
        'restrict,command="/usr/bin/python3 -I /home/a/.reconciler/agents/agent-1.pyz'
        f' relay --run-directory /home/a/.reconciler/run" {KEY} reconciler-gateway'
    )
    assert expected == LINE


def test_paths_with_spaces_and_quotes_are_quoted_for_the_shell_and_for_sshd() -> None:
    line = relay_line("/opt/a b/python", "/a'\"b.pyz", "/run", KEY)
    assert "command=\"'/opt/a b/python' -I '/a'\\\"'\\\"'\\\"b.pyz' relay --run-directory /run\"" in line


@pytest.mark.parametrize("path", ["/a\nb", "/a\\b", "/a\0b"])
def test_a_path_that_no_line_can_hold_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="authorized_keys"):
        relay_line("/usr/bin/python3", path, "/run", KEY)


@given(before=others, after=others)
def test_the_line_is_there_once_whatever_was_there_and_the_others_stay(
    before: list[str], after: list[str]
) -> None:
    old = relay_line("/usr/bin/python3", "/old.pyz", "/run", KEY)
    text = "\n".join([*before, old, *after, ""])
    done = ensure_line(text, LINE)
    assert done.splitlines().count(LINE) == 1
    assert old not in done
    assert ensure_line(done, LINE) == done
    kept = [line for line in done.splitlines() if line != LINE]
    assert kept == [*before, *after]
    assert without_key(done, KEY).splitlines() == [*before, *after]


def test_nothing_is_touched_where_the_line_is_already(tmp_path: Path) -> None:
    text = f"{OTHER}\n{LINE}\n\n# without an end"
    assert ensure_line(text, LINE) == text
    assert ensure_line("", LINE) == LINE + "\n"
    assert ensure_line(OTHER, LINE) == f"{OTHER}\n{LINE}\n"
