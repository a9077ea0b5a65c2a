"""What the version before took as manifests, this one takes as well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.source.files import read_directory
from reconciler.source.yaml.documents import load
from tests.previous import unpack


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("before"))


def test_every_cluster_that_the_version_before_has_shipped_is_valid(before: Path) -> None:
    folders = {path.parent for path in before.rglob("*.yaml")}
    assert {"manifests", "one-node", "four-studios"} <= {folder.name for folder in folders}
    for folder in sorted(folders):
        assert load(read_directory(folder))


def test_the_example_of_every_kind_that_the_version_before_knew_is_valid(before: Path) -> None:
    pages = sorted(page for page in (before / "docs" / "kinds").glob("*.md") if page.name != "README.md")
    found = []
    for page in pages:
        (example,) = re.findall(r"## Example\n\n```yaml\n(.*?)```", page.read_text(), re.DOTALL)
        (document,) = load({page.name: example.encode()}, part=True)
        found.append(document.key[0].lower())
    assert found == [page.stem for page in pages]
    assert len(found) >= 6
