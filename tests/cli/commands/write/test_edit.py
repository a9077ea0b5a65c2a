"""`edit`: whatever an editor leaves behind is committed, opened again, or kept."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

from .test_manifests import git
from .test_writing import changed_lines, committed, head, subjects, template

pytestmark = pytest.mark.processes

__all__ = ["committed", "template"]

Editor = Callable[..., list[str]]

SCRIPT = """\
import pathlib, sys
steps, seen, file = (pathlib.Path(word) for word in sys.argv[1:])
text = file.read_text()
with seen.open("a") as log:
    log.write(text + "\\0")
number = seen.read_text().count("\\0")
exec((steps / str(number)).read_text())
file.write_text(text)
"""


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """An editor that does one piece of Python with ``text`` after the other; the file that has what it was shown."""

    def install(*steps: str) -> Path:
        (tmp_path / "my editor.py").write_text(SCRIPT)
        for number, step in enumerate(steps, 1):
            (tmp_path / str(number)).write_text(step)
        seen = tmp_path / "seen"
        command = f"{sys.executable} '{tmp_path}/my editor.py' {tmp_path} {seen}"
        monkeypatch.setenv("KUBE_EDITOR", command)
        return seen

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return install


def shown(seen: Path) -> list[str]:
    return seen.read_text().split("\0")[:-1]


def drafts(folder: Path) -> list[Path]:
    return sorted(folder.glob("reconciler-edit-*"))


def test_the_objects_own_text_is_edited_with_its_comments(
    cli: Cli, committed: Path, editor: Callable[..., Path], tmp_path: Path
) -> None:
    seen = editor("text = text.replace('replicas: 1', 'replicas: 2  # two by now')")
    result = cli("edit", "deployment/tiny")
    assert (result.code, result.out) == (0, "modeldeployment.reconciler/tiny edited\n")
    assert changed_lines(committed) == ["-  replicas: 1", "+  replicas: 2  # two by now"]
    assert subjects(committed)[0] == "Edit modeldeployment/tiny"
    (text,) = shown(seen)
    assert text.startswith("#| modeldeployment/tiny. Lines that begin with #| are removed")
    assert "nodes: 2          # one rank on each of two nodes\n" in text
    assert "kind: Model\n" not in text
    assert drafts(tmp_path) == []


def test_comments_alone_may_be_changed(cli: Cli, committed: Path, editor: Callable[..., Path]) -> None:
    editor("text = text.replace('  # one rank on each of two nodes', '')")
    assert cli("edit", "deployment", "tiny").out == "modeldeployment.reconciler/tiny edited\n"
    assert len(changed_lines(committed)) == 2


@pytest.mark.parametrize(
    ("step", "message"), [("", "no changes made"), ("text = ''", "saved file was empty")]
)
def test_nothing_is_committed_without_a_change(
    step: str, message: str, cli: Cli, committed: Path, editor: Callable[..., Path], tmp_path: Path
) -> None:
    editor(step)
    before = head(committed)
    result = cli("edit", "node/node-a")
    assert (result.code, result.out, result.err) == (0, "", f"Edit cancelled, {message}.\n")
    assert (head(committed), drafts(tmp_path)) == (before, [])


def test_text_with_mistakes_is_opened_again_with_what_is_wrong(
    cli: Cli, committed: Path, editor: Callable[..., Path]
) -> None:
    seen = editor(
        "text = text.replace('replicas: 1', 'replicas: many')",
        "text = text.replace('tiny', 'other', 2).replace('many', '3')",
        "text = text.replace('other', 'tiny').replace('replicas: 3', 'replicas: 4')",
    )
    assert cli("edit", "deployment/tiny").code == 0
    assert changed_lines(committed) == ["-  replicas: 1", "+  replicas: 4"]
    _, second, third = shown(seen)
    place = re.search(r"#\|   line (\d+):13: spec.replicas: expected a whole number", second)
    assert place is not None
    assert second.splitlines()[int(place[1]) - 1] == "  replicas: many"
    assert 'the ModelDeployment "tiny"; kind and name cannot change' in third


def test_mistakes_that_stay_are_given_up_and_kept(
    cli: Cli, committed: Path, editor: Callable[..., Path], tmp_path: Path
) -> None:
    editor("text = text.replace('replicas: 1', 'replicas: many')", "")
    before = head(committed)
    result = cli("edit", "deployment/tiny")
    (kept,) = drafts(tmp_path)
    assert result.code == 1
    assert result.err.splitlines() == [
        f"A copy of your changes has been stored to {kept}",
        "error: Edit cancelled, no valid changes were saved; correct the copy, then: "
        f"reconciler apply -f {kept}",
    ]
    assert head(committed) == before
    assert "#|" not in kept.read_text(), "what is applied has no lines that were for the editor"
    kept.write_text(kept.read_text().replace("replicas: many", "replicas: 3"))
    assert cli("apply", "-f", str(kept)).code == 0
    assert changed_lines(committed) == ["-  replicas: 1", "+  replicas: 3"]


NODE_A = """\
apiVersion: reconciler/v1alpha1
kind: Node
metadata: {name: node-a, labels: {pool: one}}
spec:
  local: {}
"""


def test_somebody_elses_change_of_the_object_is_a_conflict_and_of_another_none(
    cli: Cli, committed: Path, editor: Callable[..., Path], tmp_path: Path
) -> None:
    def meanwhile(*arguments: str) -> str:
        command = [sys.executable, "-m", "reconciler", "--home", str(committed), *arguments]
        return f"import subprocess; subprocess.run({command!r}, check=True, stdout=-3)\n"

    other = tmp_path / "a.yaml"
    other.write_text(NODE_A)
    editor(
        meanwhile("apply", "-f", str(other), "-m", "Label it")
        + "text = text.replace('{}', '{}\\n  drain: true')"
    )
    assert cli("edit", "node/node-b").code == 0
    assert subjects(committed)[:2] == ["Edit node/node-b", "Label it"]
    (tmp_path / "seen").unlink()
    other.write_text(NODE_A.replace("one", "two"))
    editor(
        meanwhile("apply", "-f", str(other), "-m", "Label it again")
        + "text = text.replace('{}', '{}\\n  drain: true')"
    )
    result = cli("edit", "node/node-a")
    (kept,) = drafts(tmp_path)
    assert result.err.splitlines() == [
        f"A copy of your changes has been stored to {kept}",
        "error: somebody else has changed node/node-a meanwhile; nothing was changed",
    ]
    assert "drain: true" in kept.read_text()
    assert subjects(committed)[0] == "Label it again"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("false", "the editor 'false' exited with 1"),
        ("/no/such/editor --wait", "cannot be started: [Errno 2] No such file or directory"),
        ("'unbalanced", "cannot be started: No closing quotation"),
    ],
)
def test_an_editor_that_fails_is_named(
    command: str, message: str, cli: Cli, committed: Path, editor: object,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.delenv("KUBE_EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", command)
    result = cli("edit", "node/node-a")
    assert result.code == 1
    assert message in result.err
    assert drafts(tmp_path) == []


def test_an_editor_that_fails_after_a_change_loses_nothing(
    cli: Cli, committed: Path, editor: Callable[..., Path], tmp_path: Path
) -> None:
    editor("file.write_text(text + '# precious\\n'); raise SystemExit(3)")
    result = cli("edit", "node/node-a")
    (kept,) = drafts(tmp_path)
    assert result.err.startswith(f"A copy of your changes has been stored to {kept}\n")
    assert kept.read_text().endswith("# precious\n")
    assert "#|" not in kept.read_text()


@pytest.mark.parametrize("change", ["", "# precious\n"])
def test_after_ctrl_c_changes_are_kept_and_nothing_else(
    change: str, cli: Cli, committed: Path, editor: Callable[..., Path], tmp_path: Path
) -> None:
    editor(
        f"import os, signal; file.write_text(text + {change!r})\n"
        "os.kill(os.getppid(), signal.SIGINT); raise SystemExit"
    )
    result = cli("edit", "node/node-a")
    assert result.code == 130
    assert [path.read_text().endswith(change) for path in drafts(tmp_path)] == [True] * bool(change)
    assert ("A copy of your changes has been stored to" in result.err) == bool(change)


def test_bytes_that_are_no_text_and_other_line_ends_survive(
    cli: Cli, committed: Path, editor: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "dos.yaml").write_bytes(
        b"apiVersion: reconciler/v1alpha1\r\nkind: Node\r\nmetadata: {name: dos}\r\nspec:\r\n  local: {}\r\n"
    )
    cli("apply", "-f", "dos.yaml")
    seen = editor(
        "file.write_bytes(file.read_bytes() + b'# \\xff\\n'); raise SystemExit(0)",
        "file.write_bytes(file.read_bytes().replace(b'# \\xff\\n', b'  drain: true\\r\\n')); raise SystemExit(0)",
    )
    assert seen.exists() is False
    (tmp_path / "my editor.py").write_text(
        SCRIPT.replace("read_text()\nwith", "read_bytes().decode('latin-1')\nwith")
    )
    assert cli("edit", "node/dos").code == 0
    text = git(committed, "show", "main:dos.yaml")
    assert text.count("\n") == 6
    assert "drain: true" in text


def test_only_one_object_is_edited(cli: Cli, committed: Path) -> None:
    for words in ((), ("node",), ("node", "a", "b"), ("ranks/x",)):
        assert cli("edit", *words).code == 2
    assert 'nodes "node-x" not found; did you mean' in cli("edit", "node/node-x").err
