"""Every kind of broken file, said with its place wherever somebody may meet it: the command line, the hook."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.source.git import hooks
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.yaml.pieces import FILE_BYTES_MAX
from tests.source.conftest import Person, clone
from tests.source.yaml.broken import BROKEN
from tests.source.yaml.test_mutated_manifests import validated

TOO_LARGE = "files of more than 1048576 bytes are not taken"
"""What a push answers to a file of any kind before it is read."""
MANIFESTS = Path(__file__).parents[3] / "manifests"


@pytest.fixture(scope="module")
def ada() -> Iterator[Person]:
    """Somebody with a clone of the example cluster."""
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    person = clone(ClusterRepo.create(folder / "cluster.git", hooks.command()), "ada")
    shutil.copytree(MANIFESTS, person.clone, dirs_exist_ok=True)
    person.commits("x", "README")
    assert person.pushes()[0] == 0
    yield person
    shutil.rmtree(folder)


@pytest.mark.second_tier
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_explained_by_validate_and_kept_out_by_the_hook(name: str, ada: Person) -> None:
    content, expected = BROKEN[name]
    (ada.clone / "x.yaml").write_bytes(content)
    status, output = validated(ada.clone)
    assert (status, any(expected in line for line in output)) == (1, True), output
    ada.commits(name, "README")
    status, output = ada.pushes()
    told = TOO_LARGE if len(content) > FILE_BYTES_MAX else expected
    assert (status, any(told in line for line in output)) == (1, True), output
    assert output[-1] == "reconciler: main stays as it was"
    ada.git("reset", "-q", "--hard", "origin/main")  # a later push must not bring it once more
