"""What an agent says of the models on its node."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.weights import files
from reconciler.agent.weights.files import Weights
from reconciler.wire.codec import to_wire
from reconciler.wire.weights import RECORD_NAME, Record, WantedFile, hub_path
from tests.agent.bench import Bench, observe

PATH = hub_path("org/tiny", "a" * 40)


def _safetensors(path: Path, tensor_bytes: int = 8) -> int:
    """A file with one tensor, which is called as the file is."""
    tensor = {"dtype": "U8", "shape": [tensor_bytes], "data_offsets": [0, tensor_bytes]}
    header = json.dumps({path.name: tensor}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(tensor_bytes))
    return path.stat().st_size


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "tiny"
    directory.mkdir()
    (directory / "config.json").write_text('{"model_type": "llama", "time_step_limit": [0.0, Infinity]}')
    return directory


def _index(model: Path, *names: str) -> None:
    content = {"metadata": {"total_size": 1}, "weight_map": {name: name for name in names}}
    (model / "model.safetensors.index.json").write_text(json.dumps(content))


def test_a_model_in_one_file_is_described(model: Path) -> None:
    size = _safetensors(model / "model.safetensors", 1000)

    report = Weights(model.parent).report("tiny")

    assert (report.path, report.directory, report.present) == ("tiny", str(model), True)
    assert (report.weights_bytes, report.problem) == (size, "")
    assert report.config == {"model_type": "llama", "time_step_limit": [0.0, None]}


def test_a_model_in_many_files_counts_those_that_its_index_names(model: Path) -> None:
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    sizes = [_safetensors(model / name) for name in names]
    _safetensors(model / "consolidated.safetensors")
    _index(model, *names)

    report = Weights(model.parent).report("tiny")

    assert (report.weights_bytes, report.problem) == (sum(sizes), "")


def test_a_missing_file_of_an_index_is_named(model: Path) -> None:
    _safetensors(model / "model-1.safetensors")
    _index(model, "model-1.safetensors", "model-2.safetensors")

    assert Weights(model.parent).report("tiny").problem == "model-2.safetensors is missing"


def test_a_file_that_is_cut_short_is_named(model: Path) -> None:
    size = _safetensors(model / "model.safetensors", 1000)
    os.truncate(model / "model.safetensors", size - 1)

    problem = Weights(model.parent).report("tiny").problem

    assert problem == f"model.safetensors is cut short: {size - 1} of {size} bytes"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("model.safetensors", b"", "model.safetensors is not a safetensors file (it is empty)"),
        ("model.safetensors", b"<html>not found</html>", "model.safetensors is not a safetensors file"),
        ("model.safetensors", struct.pack("<Q", 4) + b"[{]}", "header cannot be read"),
        ("config.json", b"", "config.json: Expecting value"),
        ("config.json", b"[]", "config.json: expected a JSON object"),
        ("config.json", b"[" * 100_000, "config.json: its JSON is nested too deeply"),
        ("config.json", b"\xff\xfe", "config.json: 'utf-8' codec can't decode"),
        ("config.json", b" " * 1_100_000, "config.json has more than 1048576 bytes"),
    ],
)
def test_a_damaged_file_is_a_problem(model: Path, name: str, content: bytes, problem: str) -> None:
    _safetensors(model / "model.safetensors")
    (model / name).write_bytes(content)

    assert problem in Weights(model.parent).report("tiny").problem


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "model.safetensors.index.json: Expecting value"),
        (b"{}", "expected weight_map to name a file for each tensor"),
        (b'{"weight_map": {"w": "model-00001-of-00002.safetensors"}}', "it names other files than these"),
        (b'{"weight_map": {"w": "model.safetensors"}}', "it names other tensors than the files have"),
    ],
)
def test_an_index_that_is_not_of_these_files_is_not_used(model: Path, content: bytes, why: str) -> None:
    """mlx-lm reads it for a pipeline alone."""
    _safetensors(model / "model.safetensors")
    (model / "model.safetensors.index.json").write_bytes(content)
    report = Weights(model.parent).report("tiny")
    assert (report.problem, report.note.partition(" is not used: ")[0]) == (
        "",
        "model.safetensors.index.json",
    )
    assert why in report.note


def test_of_numbered_files_without_an_index_a_missing_one_is_named(model: Path) -> None:
    for number in (1, 3):
        _safetensors(model / f"model-0000{number}-of-00003.safetensors")
    weights = Weights(model.parent)
    assert weights.report("tiny").problem == "model-00002-of-00003.safetensors is missing"
    _safetensors(model / "model-00002-of-00003.safetensors")
    assert weights.report("tiny").problem == ""


def test_two_files_with_the_same_tensor_are_named(model: Path) -> None:
    """Of the copy that Finder makes mlx-lm may read the tensors last."""
    _safetensors(model / "model.safetensors")
    shutil.copy(model / "model.safetensors", model / "model copy.safetensors")
    assert Weights(model.parent).report("tiny").problem == (
        "model copy.safetensors and model.safetensors both have the tensor model.safetensors:"
        " remove the file that does not belong here"
    )


def test_a_directory_without_weights_is_a_problem(model: Path) -> None:
    assert "it has no model*.safetensors files" in Weights(model.parent).report("tiny").problem
    (model / "config.json").unlink()
    assert Weights(model.parent).report("tiny").problem == "config.json is missing"


@pytest.mark.parametrize("path", ["absent", "/no/such/place", "~nobody-of-that-name/x"])
def test_a_model_that_is_not_there_is_no_problem(model: Path, path: str) -> None:
    report = Weights(model.parent).report(path)

    assert (report.present, report.problem) == (False, "")
    assert Path(report.directory).is_absolute()


def test_a_download_that_goes_on_is_seen(model: Path) -> None:
    weights = Weights(model.parent)
    _index(model, "model-a.safetensors")
    assert weights.report("tiny").problem == "model-a.safetensors is missing"
    size = _safetensors(model / "model-a.safetensors")
    os.truncate(model / "model-a.safetensors", size - 1)
    assert "cut short" in weights.report("tiny").problem
    _safetensors(model / "model-a.safetensors")

    assert weights.report("tiny").problem == ""


@pytest.mark.parametrize(
    "name",
    [
        "../other/model.safetensors",
        "/etc/model.safetensors",
        "model/../../x.safetensors",
        "x.safetensors",
        "",
    ],
)
def test_an_index_may_name_files_of_its_own_folder_alone(model: Path, name: str) -> None:
    _safetensors(model / "model.safetensors")
    _index(model, "model.safetensors", name)

    problem = Weights(model.parent).report("tiny").problem

    assert problem == (
        f"model.safetensors.index.json names {name!r}, expected model*.safetensors in the same folder"
    )


def test_a_folder_of_links_as_hubs_keep_it_is_as_good_as_one_of_files(model: Path, tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    size = _safetensors(blobs / "5f4dcc3b")
    (model / "model.safetensors").symlink_to("../blobs/5f4dcc3b")
    (model / "config.json").rename(blobs / "81fe8bfe")
    (model / "config.json").symlink_to(blobs / "81fe8bfe")
    (tmp_path / "linked").symlink_to(model)

    report = Weights(model.parent).report("linked")

    assert (report.weights_bytes, report.problem) == (size, "")
    (blobs / "5f4dcc3b").unlink()
    assert Weights(model.parent).report("linked").problem == "model.safetensors is missing"


def test_a_pipe_among_the_files_is_not_waited_for(model: Path) -> None:
    _safetensors(model / "model.safetensors")
    (model / "config.json").unlink()
    os.mkfifo(model / "config.json")

    assert Weights(model.parent).report("tiny").problem == "config.json is not a file"


@pytest.fixture
def fetched(tmp_path: Path) -> Path:
    """The verified weights of a commit: one file whole, and the outline of another."""
    folder = tmp_path / PATH
    folder.mkdir(parents=True)
    names = ["config.json", "model-1.safetensors", "model-2.safetensors"]
    (folder / names[0]).write_text("{}")
    for name in names[1:]:
        _safetensors(folder / name)
    status = {name: (folder / name).stat() for name in names}
    record = Record(
        "org/tiny",
        "a" * 40,
        tuple(WantedFile(name, status[name].st_size, "sha256:0") for name in names),
        verified={name: status[name].st_mtime_ns for name in names[:2]},
        outlines={names[2]: status[names[2]].st_mtime_ns},
    )
    (folder / RECORD_NAME).write_text(json.dumps(to_wire(record)))
    return folder


def test_fetched_weights_are_verified_and_their_outlines_named(fetched: Path, tmp_path: Path) -> None:
    report = Weights(tmp_path).report(PATH)
    assert (report.verified, report.lacking, report.problem) == (True, ("model-2.safetensors",), "")
    plain = Weights(fetched.parent).report(fetched.name)
    assert (plain.verified, plain.lacking, plain.problem) == (False, (), "")


@pytest.mark.parametrize("name", ["config.json", "model-1.safetensors", "model-2.safetensors"])
def test_fetched_weights_that_have_changed_since_are_verified_no_more(
    fetched: Path, tmp_path: Path, name: str
) -> None:
    os.utime(fetched / name, ns=(1, 1))
    report = Weights(tmp_path).report(PATH)
    assert (report.verified, report.problem) == (False, f"{name} has changed since it was verified")
    (fetched / name).unlink()
    assert Weights(tmp_path).report(PATH).problem == f"{name} is missing"
    (fetched / RECORD_NAME).write_text("{}")
    assert Weights(tmp_path).report(PATH).problem.startswith(".reconciler.json: ")


def test_what_was_parsed_is_kept_until_its_file_changes_and_only_so_much_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_CACHED_MAX", 4)
    weights = Weights(tmp_path)
    for number in range(20):
        folder = tmp_path / f"m{number}"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"number": number}))
        _safetensors(folder / "model.safetensors")
        assert weights.report(folder.name).config == {"number": number}
        assert len(weights._cache) <= 4
    path = tmp_path / "m19" / "config.json"
    status = path.stat()
    path.write_text('{"number": 77}')
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert weights.report("m19").config == {"number": 19}, "size and time of change are those that were"
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert weights.report("m19").config == {"number": 77}


def test_the_mark_of_a_model_changes_with_every_file_that_a_runtime_may_read(model: Path) -> None:
    _safetensors(model / "model.safetensors")
    marks = [files.mark(model)]
    for name in ("tokenizer.json", "chat_template.jinja", "modeling.py", "vocab.txt"):
        (model / name).write_text("x")
        marks.append(files.mark(model))
        (model / name).write_text("xx")
        marks.append(files.mark(model))
    assert len(set(marks)) == len(marks)
    for name in (".cache.json", "training.log", "README.md"):
        (model / name).write_text("x")
    (model / "gone.json").symlink_to("nothing")
    assert files.mark(model) == marks[-1]
    with pytest.raises(OSError, match="No such file"):
        files.mark(model / "absent")


def test_a_folder_that_may_not_be_read_is_a_problem(tmp_path: Path) -> None:
    """Asked as somebody who may not read it: root, as which tests often run, may read everything."""
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "config.json").write_text("{}")
    question = (
        "import os, sys; from pathlib import Path; from reconciler.agent.weights.files import Weights\n"
        "os.getuid() or os.setuid(65534)\n"
        "os.chdir(sys.argv[1]); print(Weights(Path('.')).report('closed').problem)"
    )
    open_to_all = Path(tempfile.mkdtemp())
    try:
        open_to_all.chmod(0o711)
        shutil.move(closed, open_to_all)
        (open_to_all / "closed").chmod(0o311 if os.getuid() else 0o711)
        found = subprocess.run(
            [sys.executable, "-c", question, str(open_to_all)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    finally:
        (open_to_all / "closed").chmod(0o700)
        shutil.rmtree(open_to_all)
    assert found.stdout.strip() == "closed cannot be read: Permission denied"


async def test_a_controller_is_told_of_the_models_that_it_asks_for(bench: Bench) -> None:
    model = bench.models / "tiny"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    size = _safetensors(model / "model.safetensors")

    report = await observe(await bench.agent(), "tiny", str(model), "other")

    assert [found.path for found in report.models] == ["tiny", str(model), "other"]
    assert [found.weights_bytes for found in report.models] == [size, size, 0]
    assert [found.present for found in report.models] == [True, True, False]


def test_weights_on_a_volume_that_is_not_mounted_are_told_from_weights_that_are_not_there(
    tmp_path: Path,
) -> None:
    weights = Weights(tmp_path)
    absent = weights.report("/Volumes/none-of-this-name/tiny")
    assert (absent.present, absent.absent_volume) == (False, "/Volumes/none-of-this-name")
    assert absent.problem == "/Volumes/none-of-this-name is not mounted"
    assert (weights.report("tiny").absent_volume, weights.report("tiny").problem) == ("", "")


class _Refused(Weights):
    """Reading any file ends as macOS lets it end without a person's consent."""

    def _cached(self, path: Path, read: Callable[[Path], Any]) -> Any:
        raise PermissionError(errno.EPERM, "Operation not permitted", f"/Volumes/weights/{path.name}")


def test_weights_that_macos_keeps_from_the_agent_are_told_from_damaged_ones(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    refused = _Refused(tmp_path).report("tiny")
    assert (refused.barred, refused.problem) == (True, "config.json cannot be read: Operation not permitted")
    damaged = Weights(tmp_path).report("tiny")
    assert (damaged.barred, damaged.problem) == (False, "config.json is missing")
