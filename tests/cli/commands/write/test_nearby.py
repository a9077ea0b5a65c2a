"""`validate` and `diff` say the same whether a running controller is asked or not; asking is only faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.cli.core import nearby
from reconciler.errors import InvalidManifests
from reconciler.wire.manifests import Compare, Validate
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
            patch.setattr(nearby, "BYTES_MAX", 0)
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
    socket = cluster.home / "controller.sock"
    answer = nearby.asked(socket, question, {"a.yaml": TINY.encode()})
    assert answer is not None
    assert answer["objects"] == [["ModelDeployment", "tiny"]]
    with pytest.raises(InvalidManifests) as wrong:
        nearby.asked(socket, question, {"a.yaml": TINY.replace("model:", "modle:").encode()})
    assert [(each.line, each.column, each.path) for each in wrong.value.problems] == [
        (4, 1, "spec.model"),
        (4, 8, "spec.modle"),
    ]


def test_nobody_is_asked_who_knows_other_fields_or_cannot_be_told(
    cluster: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    socket = cluster.home / "controller.sock"
    assert nearby.asked(socket, Validate, {"a.yaml": b"\xff"}) is None
    assert nearby.asked(socket, Validate, {"a.yaml": b"#" * (nearby.BYTES_MAX + 1)}) is None
    assert nearby.asked(tmp_path / "controller.sock", Validate, {"a.yaml": TINY.encode()}) is None
    monkeypatch.setattr(nearby, "__version__", "0.0.9")
    assert nearby.asked(socket, Validate, {"a.yaml": TINY.encode()}) is None
