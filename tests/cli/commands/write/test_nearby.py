"""`validate` and `diff` say the same whether a running controller is asked or not; asking is only faster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.cli.core import nearby
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import LOCK_NAME, ask
from reconciler.errors import InvalidManifests, Refused
from reconciler.source.edition import edition
from reconciler.wire.admin import MANIFESTS_BYTES_MAX, Compare, Validate
from tests.cli.conftest import Cli, called
from tests.cli.live import API, MANIFESTS, Live, live, manifest

NODE, TINY = manifest("node-a"), manifest("tiny")
FILES = {
    "nothing differs": {"tiny.yaml": TINY},
    "one differs and one is new": {
        "a.yaml": TINY.replace("{model: tiny}", "{model: tiny, replicas: 2}") + "---\n" + TINY.replace("tiny", "t2")
    },
    "a whole cluster": {f"{name}.yaml": manifest(name) for name in MANIFESTS},
    "a name of nothing": {"a.yaml": NODE, "b.yaml": TINY},
    "two mistakes": {"a.yaml": TINY.replace("model:", "modle:"), "b.yaml": NODE.replace("kind: Node", "kind: Nodes")},
    "no YAML": {"a.yaml": API + "kind: [\n"},
    "no manifests": {"a.yaml": "# nothing yet\n"},
    "with a byte order mark": {"a.yaml": "\ufeff" + TINY},
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Live]:
    with live() as made:
        yield made


Both = Callable[..., tuple[object, object]]


@pytest.fixture
def both(cluster: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Both:
    """Run a command twice: asking the controller, and without."""
    cli: Cli = called(cluster.home, monkeypatch, capsys)

    def run(*arguments: str) -> tuple[object, object]:
        asking = cli(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(nearby, "edition", lambda: "another")
            return asking, cli(*arguments)

    return run


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "command", ["validate", "validate --references", "validate -o json", "diff", "diff -o json"]
)
def test_the_answer_is_the_same(both: Both, name: str, command: str, tmp_path: Path) -> None:
    for file, text in FILES[name].items():
        (tmp_path / file).write_text(text)
    asking, alone = both(*command.split(), "-f", str(tmp_path))
    assert asking == alone


@pytest.mark.parametrize("question", [Validate, Compare])
def test_a_controller_is_asked_and_its_problems_are_those_of_the_files(
    cluster: Live, question: type[Validate | Compare]
) -> None:
    settings = Settings(cluster.home)
    answer = nearby.asked(settings, question, {"a.yaml": TINY.encode()})
    assert answer is not None
    assert [(kind, name) for kind, name in answer["objects"]] == [("ModelDeployment", "tiny")]
    with pytest.raises(InvalidManifests) as wrong:
        nearby.asked(settings, question, {"a.yaml": TINY.replace("model:", "modle:").encode()})
    assert [(each.line, each.column, each.path) for each in wrong.value.problems] == [
        (4, 1, "spec.model"),
        (4, 8, "spec.modle"),
    ]


def test_nobody_is_asked_who_runs_other_code_or_cannot_be_told(
    cluster: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings(cluster.home)
    assert nearby.asked(settings, Validate, {"a.yaml": b"\xff"}) is None
    assert nearby.asked(settings, Validate, {"a.yaml": b"#" * (MANIFESTS_BYTES_MAX + 1)}) is None
    assert nearby.asked(Settings(tmp_path), Validate, {"a.yaml": TINY.encode()}) is None
    monkeypatch.setattr(nearby, "edition", lambda: "another")
    assert nearby.asked(settings, Validate, {"a.yaml": TINY.encode()}) is None


def test_a_controller_that_is_being_started_is_not_waited_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    (home / LOCK_NAME).write_text(str(os.getppid()))
    monkeypatch.delattr("time.sleep")
    assert nearby.asked(Settings(home), Validate, {"a.yaml": TINY.encode()}) is None


def test_a_controller_reads_no_more_than_commands_send(cluster: Live) -> None:
    files = {"a.yaml": "#" * (MANIFESTS_BYTES_MAX + 1)}
    with pytest.raises(Refused, match="at most 262144 bytes"):
        ask(cluster.home / "controller.sock", Validate(edition(), files))


def test_an_edition_is_that_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    code = tmp_path / "source" / "a.py"
    code.write_text("a = 1\n")
    before = edition(tmp_path)
    assert edition(tmp_path) == before
    code.write_text("a = 10\n")
    assert edition(tmp_path) != before
