"""What the files of a model say of how it makes vectors, and which of it would be computed wrongly here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.runner.embedding.layout import end_token, pooling_of
from reconciler.runner.model.files import inspect
from reconciler.wire.launch import RankEnd
from reconciler.wire.question import Pool, Pooling
from tests.runner.conftest import change_json

from .models import NORMALIZE, POOLING, TRANSFORMER, lay_out


def pooling(directory: Path, declared: Pooling | None = None) -> Pooling | None:
    files = inspect(str(directory))
    return pooling_of(files.directory, files.config, declared)


def refusal(directory: Path, declared: Pooling | None = None) -> str:
    with pytest.raises(RankEnd) as caught:
        pooling(directory, declared)
    return caught.value.sentence


def test_a_model_that_says_nothing_generates_text_unless_it_is_declared(copy: Path) -> None:
    assert pooling(copy) is None
    assert pooling(copy, Pooling(Pool.MEAN, False)) == Pooling(Pool.MEAN, False)


@pytest.mark.parametrize(
    ("written", "pool"), [("lasttoken", "last"), ("mean_tokens", "mean"), ("cls_token", "cls")]
)
def test_the_layout_of_sentence_transformers_says_how(copy: Path, written: str, pool: str) -> None:
    assert pooling(lay_out(copy, written)) == Pooling(pool, normalize=True)


def test_without_normalize_vectors_keep_their_length(copy: Path) -> None:
    assert pooling(lay_out(copy, modules=(TRANSFORMER, POOLING))) == Pooling(Pool.LAST, normalize=False)


def test_a_declaration_wins(copy: Path) -> None:
    assert pooling(lay_out(copy, "mean_tokens"), Pooling(Pool.LAST)) == Pooling(Pool.LAST)


def test_what_would_be_computed_wrongly_is_refused(copy: Path) -> None:
    assert "a module 'Dense'" in refusal(lay_out(copy, modules=(TRANSFORMER, POOLING, "Dense", NORMALIZE)))


def test_so_is_another_pooling(copy: Path) -> None:
    assert "pooling_mode_max_tokens: known are last, mean, cls" in refusal(lay_out(copy, "max_tokens"))


@pytest.mark.parametrize("config", [{"is_causal": False}, {"use_bidirectional_attention": True},
                                    {"text_config": {"use_bidirectional_attention": True}}])  # fmt: skip
def test_so_is_an_encoder(copy: Path, config: dict[str, Any]) -> None:
    change_json(copy / "config.json", **config)
    assert pooling(copy) is None, "as a model that generates it is what it was"
    assert "is an encoder" in refusal(copy, Pooling())


@pytest.mark.parametrize("text", ["[", "{}", "[1]"])
def test_so_are_modules_that_cannot_be_read(copy: Path, text: str) -> None:
    (copy / "modules.json").write_text(text)
    assert "modules.json" in refusal(copy)


def test_the_end_belongs_after_a_text_for_the_last_tokens_vector_where_no_layout_says_otherwise(
    copy: Path,
) -> None:
    for named, expected in (([7, 8], 7), (9, 9), ([], None), (None, None)):
        change_json(copy / "config.json", eos_token_id=named)
        assert end_token(inspect(str(copy)), Pooling(Pool.LAST)) == expected
    change_json(copy / "config.json", eos_token_id=7)
    assert end_token(inspect(str(copy)), Pooling(Pool.MEAN)) is None
    assert end_token(inspect(str(lay_out(copy))), Pooling(Pool.LAST)) is None
