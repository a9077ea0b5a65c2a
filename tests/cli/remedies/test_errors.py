"""What a wrong turn says to type is typed: every hint, and the errors and notes of commands, at a running controller."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.cli.core import hints
from reconciler.cli.core.app import COMMANDS
from tests.cli.conftest import Result
from tests.cli.jobs import TRAIN
from tests.cli.live import API, MANIFESTS, Live, live, manifest, wait_for
from tests.source.conftest import AUTHOR, clone

from .bench import COMMIT, Bench, commands_in, filled
from .errors import PUSHED, ROWS, Row, is_of
from .for_hands import HINTS_FOR_HANDS
from .scenes import elsewhere

pytestmark = pytest.mark.second_tier

CHANGES = {*["delete", "revoke", "stop", "drain", "cordon", "set", "scale"]}
"""Verbs after which others would find another cluster."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Live]:
    with live() as made:
        yield made


@pytest.fixture
def bench(
    cluster: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Bench:
    (tmp_path / "somebody").mkdir()
    return Bench(cluster.home, tmp_path, monkeypatch, capsys)


CABLES = (
    "kind: Node\nmetadata: {name: node-b}\nspec: {local: {}}\n---\n" + API
    + "kind: Node\nmetadata: {name: node-c}\nspec: {local: {}}\n---\n" + API
    + "kind: Fabric\nmetadata: {name: cables}\nspec: {links: [[node-a/1, node-b/1]], addressing: {pool: 10.0.0.0/24}}\n"
)  # fmt: skip


def values(bench: Bench) -> dict[str, str]:
    """What a person puts in place of what stands in capitals."""
    more = manifest("tiny").replace("name: tiny", "name: more")
    bench.file("manifests/more.yaml", more)
    return {
        "KIND/NAME": "deployment/big",
        "node/NAME": "node/node-c",
        "model/NAME": "model/tiny",
        "apikey/NAME": "apikey/spare",
        "job/NAME": "job/train",
        "fabric/NAME": "fabric/cables",
        "deployment/NAME": "deployment/big",
        "NAME": "big",
        "NODE": "node-a",
        "KIND": "deployments",
        "KEY=VALUE": "a=b",
        "--replicas=N": "--replicas=1",
        "--rank N": "--rank 0",
        "FILE": bench.file("more.yaml", more),
        "CABLES": bench.file("cables.yaml", API + CABLES),
        "DIR": str(bench.folder / "manifests"),
        "manifests/": str(bench.folder / "manifests"),
        "REVISION": "HEAD",
        "DEPLOYMENT": "big",
        "MODEL": "tiny",
        "PATCH": '{"metadata":{"labels":{"a":"b"}}}',
        "URL": f"file://{bench.folder}/elsewhere.git",
        "WHERE": str(bench.home),
        "BAD": bench.file("bad.json", "{}"),
        "FACTS": str(bench.folder / "facts.json"),
        "WHEEL": "tools/mlx_reconciler-1.2.3-py3-none-any.whl",
        "COMMIT": COMMIT,
    }


def _hinted() -> list[str]:
    words = [
        *hints.COMMANDS,
        *hints.KINDS,
        *(f"get {option}" for option in hints.OPTIONS if " " not in option),
    ]
    words += [option for option in hints.OPTIONS if " " in option]
    words += [f"{command} x.yaml" for command in hints.ARGUMENTS]
    words += [f"{group} {word}" for group in (*hints.GROUPS, *hints.OTHER_GROUPS) for word in hints.VERBS]
    return list(dict.fromkeys(words))


def test_every_command_of_a_hint_is_taken(bench: Bench, subtests: pytest.Subtests) -> None:
    _prepare(bench)
    tried: set[str] = set()
    for line in _hinted():
        done = bench.calls(*line.split())
        if done.code != 2:
            continue  # it is a command of ours
        for command in commands_in(done.err.partition("See:")[0]):
            if command in tried or not _answers_here(command):
                continue
            tried.add(command)
            with subtests.test(f"{line}: {command}"):
                done = types_filled(bench, command)
                assert done.code == 0 or (command.endswith(" doctor") and "finding" in done.out), done
                if CHANGES & set(command.split()):
                    _prepare(bench)
    assert len(tried) > 60


def _answers_here(command: str) -> bool:
    """Return whether a printed command may be typed; an example of another machine may not."""
    bare = re.sub(r"^reconciler (--(home|context) \S+ )?", "", command)
    return (
        "studio" not in bare
        and bare.split(" ")[0] in COMMANDS
        and not bare.startswith(tuple(HINTS_FOR_HANDS))
    )


def _prepare(bench: Bench) -> None:
    """What others changed is as it was: the manifests, one key, one Fabric and no operation."""
    there = bench.calls("get", "operations", "-o", "name").out.split()
    if names := [each.partition("/")[2] for each in there]:
        bench.calls("undo", *names)
    bench.calls("source", "unset")
    bench.calls("delete", "deployment/more", "apikey/gone", "apikey/big", "--ignore-not-found", "--no-wait")
    bench.calls("apply", "-f", values(bench)["CABLES"])
    bench.calls("key", "create", "spare")
    text = "---\n".join([*map(manifest, MANIFESTS), TRAIN])
    assert bench.calls("apply", "-f", "-", stdin=text).code == 0


def types_filled(bench: Bench, command: str) -> Result:
    if "context remove" in command or "context use" in command:
        bench.calls("context", "add", "big", str(bench.home))
    if "key revoke" in command:
        bench.calls("key", "create", "big")
    stdin = manifest("tiny") if command.endswith(" -f -") else ""
    own = {"NAME": "cables"} if " fabric " in command else {}
    if " --facts " in command:
        own = {"FILE": values(bench)["FACTS"]}
    return bench.types(filled(command, {**values(bench), **own}), stdin)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_what_an_error_says_to_type_is_taken(row: Row, bench: Bench) -> None:
    _prepare(bench)
    if "WHEEL" in row.typed:
        subprocess.run(["git", "init", "--quiet", str(bench.folder)], check=True)
        bench.file(values(bench)["WHEEL"], "a wheel")
    for line in row.first:
        bench.calls(*filled(line, values(bench)))
    done = bench.calls(*filled(row.typed, values(bench)))
    printed = done.out + done.err
    found = [each for each in commands_in(printed) if row.names(each)]
    assert found, printed
    for command in found[:1]:
        done = types_filled(bench, command)
        assert done.code == 0, (command, done.err)


def test_what_a_push_says_to_type_is_taken(bench: Bench) -> None:
    _prepare(bench)
    assert bench.calls("cordon", "node-a", "node-b", "node-c").code == 0
    assert bench.calls("suspend", "md/big", "md/tiny", "model/tiny", "node/node-a").code == 0
    person = clone(bench.repo, "somebody-else", bench.folder)
    more = (manifest("tiny").replace("name: tiny", f"name: more-{number}") for number in range(14))
    person.commits("---\n".join(more), "more.yaml")
    status, lines = person.pushes("origin", "HEAD:main")
    assert status == 0, lines
    try:
        for file, words in PUSHED:
            (command, *_) = [
                each for each in commands_in(elsewhere(bench, "\n".join(lines))) if is_of(words, each)
            ] or [""]
            assert command, (file, words, lines)
            done = bench.types(filled(command, {}))
            assert done.code == 0, (command, done)
    finally:
        bench.calls("delete", "md", "--all", "--no-wait", "-y")
        _prepare(bench)


def test_what_is_held_is_approved_by_what_is_said(bench: Bench) -> None:
    _prepare(bench)
    head = bench.repo.head()
    assert head is not None
    files = [name for name in bench.repo.read(head) if "gateway" not in name and name.endswith(".yaml")]
    bench.repo.commit(head, dict.fromkeys(files), "Remove much", AUTHOR)
    wait_for(lambda: "to remove them: " in bench.calls("get", "all").err)
    (command, *_) = commands_in(bench.calls("get", "all").err)
    done = bench.types(filled(command, {}))
    assert done.code == 0, (command, done.err)
    assert "is held" not in bench.calls("get", "all").err
