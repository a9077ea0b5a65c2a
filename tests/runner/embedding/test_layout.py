"""What the files of a model say of how it makes vectors, and which of it would be computed wrongly here."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from reconciler.runner.embedding.layout import end_token, pooling_of
from reconciler.runner.model.files import inspect
from reconciler.runner.process.ending import RankEnd
from reconciler.wire.question import Pool, Pooling

from .models import NORMALIZE, POOLING, TRANSFORMER, change_config, lay_out


@pytest.fixture
def plain(endless: Path, tmp_path: Path) -> Path:
    """A model that says nothing of embeddings."""
    return Path(shutil.copytree(endless, tmp_path / "model"))


def pooling(directory: Path, declared: Pooling | None = None) -> Pooling | None:
    files = inspect(str(directory))
    return pooling_of(files.directory, files.config, declared)


def refusal(directory: Path, declared: Pooling | None = None) -> str:
    with pytest.raises(RankEnd) as caught:
        pooling(directory, declared)
    return caught.value.sentence


def test_a_model_that_says_nothing_generates_text_unless_it_is_declared(plain: Path) -> None:
    assert pooling(plain) is None
    assert pooling(plain, Pooling(Pool.MEAN, False)) == Pooling(Pool.MEAN, False)


@pytest.mark.parametrize(
    ("written", "pool"), [("lasttoken", "last"), ("mean_tokens", "mean"), ("cls_token", "cls")]
)
def test_the_layout_of_sentence_transformers_says_how(plain: Path, written: str, pool: str) -> None:
    assert pooling(lay_out(plain, written)) == Pooling(pool, normalize=True)


def test_without_normalize_vectors_keep_their_length(plain: Path) -> None:
    assert pooling(lay_out(plain, modules=(TRANSFORMER, POOLING))) == Pooling(Pool.LAST, normalize=False)


def test_a_declaration_wins(plain: Path) -> None:
    assert pooling(lay_out(plain, "mean_tokens"), Pooling(Pool.LAST)) == Pooling(Pool.LAST)


def test_what_would_be_computed_wrongly_is_refused(plain: Path) -> None:
    assert "a module 'Dense'" in refusal(lay_out(plain, modules=(TRANSFORMER, POOLING, "Dense", NORMALIZE)))


def test_so_is_another_pooling(plain: Path) -> None:
    assert "pooling_mode_max_tokens: known are last, mean, cls" in refusal(lay_out(plain, "max_tokens"))


@pytest.mark.parametrize("config", [{"is_causal": False}, {"use_bidirectional_attention": True},
                                    {"text_config": {"use_bidirectional_attention": True}}])  # fmt: skip
def test_so_is_an_encoder(plain: Path, config: dict[str, Any]) -> None:
    change_config(plain, **config)
    assert pooling(plain) is None, "as a model that generates it is what it was"
    assert "is an encoder" in refusal(plain, Pooling())


@pytest.mark.parametrize("text", ["[", "{}", "[1]"])
def test_so_are_modules_that_cannot_be_read(plain: Path, text: str) -> None:
    (plain / "modules.json").write_text(text)
    assert "modules.json" in refusal(plain)


def test_the_end_belongs_after_a_text_for_the_last_tokens_vector_where_no_layout_says_otherwise(
    plain: Path,
) -> None:
    for named, expected in (([7, 8], 7), (9, 9), ([], None), (None, None)):
        change_config(plain, eos_token_id=named)
        assert end_token(inspect(str(plain)), Pooling(Pool.LAST)) == expected
    change_config(plain, eos_token_id=7)
    assert end_token(inspect(str(plain)), Pooling(Pool.MEAN)) is None
    assert end_token(inspect(str(lay_out(plain))), Pooling(Pool.LAST)) is None
