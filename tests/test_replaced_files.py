"""Files that are replaced while others read them: each is complete before it takes the place of the one before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.agent.system.files import write_atomically
from reconciler.cli.commands.cluster import archive
from reconciler.cli.core.saved_plans import SavedPlan, save
from reconciler.remote.ssh.last_addresses import LastAddresses
from reconciler.services import hearing
from reconciler.source.git import hooks

WRITES: dict[str, Callable[[Path], object]] = {
    "a file of the agent": lambda folder: write_atomically(folder / "state", b"one line\n"),
    "a saved plan": lambda folder: save(SavedPlan("home", None, {}, "a change", ())),
    "last addresses": lambda folder: LastAddresses(folder / "known").keep("ada@mini-1.local", "10.0.0.1"),
    "steps with services": lambda folder: hearing.record(
        folder / "acts", lambda: 1.0, "up", "Hung", "it hangs"
    ),
    "a backup": lambda folder: archive.write(folder / "backup", folder, "2026-11-21T10:00:00Z", None),
    "hooks": lambda folder: hooks.install(folder, ("true",)),
}


@pytest.mark.parametrize("kind", WRITES)
def test_a_file_is_complete_when_it_takes_the_place_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    replace = Path.replace
    found: dict[Path, bytes] = {}

    def noted(draft: Path, target: Path) -> Path:
        found[target] = draft.read_bytes()
        return replace(draft, target)

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(Path, "replace", noted)
    WRITES[kind](tmp_path)
    assert found
    assert all(found.values())
    assert found == {path: path.read_bytes() for path in found}
