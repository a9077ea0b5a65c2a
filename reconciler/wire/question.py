"""What a request asks of a prompt instead of an answer to it: how many tokens it has, which, what text they are; or the
vectors of some texts.

Rank 0 answers with ``Accepted``, ``Delta`` where vectors are wanted, and ``Finished``. A request with a question has
``tokens_max`` 0, which ranks that know no questions refuse.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple


class Pool:
    """How the vectors of a text's tokens become one."""

    LAST = "last"
    """That of the last token."""
    MEAN = "mean"
    FIRST = "cls"
    """That of the first token, which some models have for it."""

    ALL = (LAST, MEAN, FIRST)


@dataclasses.dataclass(frozen=True)
class Pooling:
    """How a model for embeddings makes the vector of a text."""

    pool: str = Pool.LAST
    """Value of ``Pool``."""
    normalize: bool = True
    """Whether vectors have the length 1."""


@dataclasses.dataclass(frozen=True)
class Texts:
    """Texts whose vectors are wanted: ``texts``, or else ``tokens``."""

    texts: Tuple[str, ...] = ()
    tokens: Tuple[Tuple[int, ...], ...] = ()
    """Token ids, which are taken as they are."""
    dimensions: Optional[int] = None
    """Of each vector, whose further numbers are left out; None: all."""


@dataclasses.dataclass(frozen=True)
class Vector:
    """The vector of a text of ``Texts``. A question that is asked again may be answered with it again."""

    place: int
    """Of the text among those of the question."""
    numbers: str
    """In base64: 32 bits each, the lowest byte first."""


@dataclasses.dataclass(frozen=True)
class Question:
    """The tokens of a prompt as an answer to it would be charged, unless it says otherwise."""

    called: str = ""
    """What the client calls the prompt, for errors; empty: as with an answer to it."""
    tokens: bool = False
    """Whether ``Accepted`` is to have the token ids. ``Finished`` always has their number."""
    token_texts: bool = False
    """Whether it is to have how the tokenizer shows each of them."""
    special_tokens: Optional[bool] = None
    """Whether the tokenizer adds its special tokens; None: to a prompt, and not to what a chat template has rendered."""
    generation_prompt: bool = True
    """Whether the chat template ends with the beginning of the model's turn."""
    texts: Optional[Texts] = None
    """The texts, where vectors are wanted; there is no prompt then."""
