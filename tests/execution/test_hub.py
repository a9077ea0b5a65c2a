"""The hub's token comes from where the manifest says, and its want is told with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import Refused
from reconciler.execution.hub import Hub
from reconciler.resources import TokenRef


def test_without_a_reference_there_is_no_token() -> None:
    assert Hub({"HF_TOKEN": "secret"}).token(None) == ""


def test_a_token_is_read_from_the_variable_or_the_file_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of a file\n")
    hub = Hub({"HF_TOKEN": " of a variable "})
    assert hub.token(TokenRef(env="HF_TOKEN")) == "of a variable"
    assert hub.token(TokenRef(file=str(file))) == "of a file"
    file.write_text("of the same file later\n")
    assert hub.token(TokenRef(file=str(file))) == "of the same file later", "it is kept nowhere"


def test_a_token_that_is_missing_is_refused_with_its_place(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xe9\xff")
    for ref, words in (
        (TokenRef(env="HF_TOKEN"), "has no HF_TOKEN; set it, and restart"),
        (TokenRef(file=str(tmp_path / "none")), "none cannot be read: No such file or directory"),
        (TokenRef(file=str(binary)), "binary cannot be read: it is not text"),
    ):
        with pytest.raises(Refused, match=words) as refused:
            Hub({"HF_TOKEN": " "}).token(ref)
        assert refused.value.code == "TokenMissing"


def test_another_hub_is_the_one_that_the_environment_names() -> None:
    assert Hub().endpoint == ""
    assert Hub({"HF_ENDPOINT": "http://mirror"}).endpoint == "http://mirror"
