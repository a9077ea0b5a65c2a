"""What the agent's command says before there is an agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.agent import entry
from reconciler.agent.entry import EXIT_FENCED
from reconciler.agent.system import operating_system


@pytest.fixture(autouse=True)
def _nothing_of_this_process_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating_system, "use", lambda folders: None)
    monkeypatch.setattr("os.umask", lambda mask: 0)


def ask(home: Path, token: int) -> int:
    folders = {"--directory": home, "--models": home, "--run-directory": home / "run", "--python": "python3"}
    given = [word for name, folder in folders.items() for word in (name, str(folder))]
    return entry.main(["serve", "--node", "node-a", *given, "--ask", "--token", str(token)])


@pytest.mark.parametrize(
    ("kept", "token", "status", "said"),
    [
        ("", 3, 0, ""),
        ('{"version": 1, "token": 3}', 3, 0, ""),
        ('{"version": 1, "token": 3}', 4, 0, ""),
        ('{"version": 1, "token": 3}', 0, 0, ""),
        ('{"version": 1, "token": 3}', 2, EXIT_FENCED, "token 2 is older than 3"),
        ('{"version": 1, "token": "x"}', 4, 1, "expected an object with the number 'token'"),
        ("{", 4, 1, "fence.json"),
    ],
)
def test_an_agent_may_be_started_with_a_token_that_is_not_older_than_the_last_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: str, token: int, status: int, said: str
) -> None:
    if kept:
        (tmp_path / "fence.json").write_text(kept)
    assert ask(tmp_path, token) == status
    assert said in capsys.readouterr().err
