"""What a rank says of the files of a model, wherever a disk lists them first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.runner.model import files
from reconciler.wire.launch import RankEnd

SHARDS = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
ORDERS = [(0, 1, 2), (2, 1, 0), (1, 2, 0)]


def lay(directory: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]) -> None:
    """Write three files that are no weights, which are found in this order."""
    (directory / "config.json").write_text("{}")
    for length, name in enumerate(SHARDS):
        (directory / name).write_bytes(b"x" * length)

    def found(folder: Path, pattern: str) -> Iterator[Path]:
        return (folder / SHARDS[place] for place in order)

    monkeypatch.setattr(Path, "glob", found)


@pytest.mark.parametrize("order", ORDERS)
def test_the_digest_of_equal_weights_is_equal_on_every_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    lay(tmp_path, monkeypatch, order)
    monkeypatch.setattr(files, "read_layout", lambda directory: None)
    found = files.inspect(str(tmp_path))
    assert found.bytes == 3
    assert found.digest == "890ce165de187165938ccfa13a8f5b2b6dd57245f01fc27e05761f8c950506c6"


@pytest.mark.parametrize("order", ORDERS)
def test_of_several_damaged_files_the_first_by_name_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    lay(tmp_path, monkeypatch, order)
    with pytest.raises(RankEnd, match=SHARDS[0]):
        files.inspect(str(tmp_path))
