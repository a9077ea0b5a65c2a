"""Every kind of broken file, said with its place wherever somebody may meet it; the command line and the hook."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.source.broken import BROKEN
from tests.source.conftest import Person
from tests.source.test_mutated_manifests import validated

MANIFESTS = Path(__file__).parents[2] / "manifests"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_explained_by_validate_and_kept_out_by_the_hook(name: str, person: Person) -> None:
    content, expected = BROKEN[name]
    shutil.copytree(MANIFESTS, person.clone, dirs_exist_ok=True)
    person.commits("x", "README")
    assert person.pushes()[0] == 0
    (person.clone / "x.yaml").write_bytes(content)
    status, said = validated(person.clone)
    assert (status, any(expected in line for line in said)) == (1, True), said
    person.commits("y", "README")
    status, said = person.pushes()
    assert (status, any(expected in line for line in said)) == (1, True), said
    assert said[-1] == "reconciler: main stays as it was"
