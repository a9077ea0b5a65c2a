"""Questions about a prompt instead of an answer to it: the number of its tokens, the tokens, their text; or the vectors
of some texts.

Rank 0 answers with ``Accepted``, ``Delta`` where vectors are wanted, and ``Finished``. A request with a question has
``tokens_max`` 0, which ranks without questions refuse.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple


class Pool:
    """Ways to make one vector of the vectors of a text's tokens."""

    LAST = "last"
    """The vector of the last token."""
    MEAN = "mean"
    FIRST = "cls"
    """The vector of the first token, which some models add for this purpose."""

    ALL = (LAST, MEAN, FIRST)


@dataclasses.dataclass(frozen=True)
class Pooling:
    """The settings by which a model for embeddings makes the vector of a text."""

    pool: str = Pool.LAST
    """Value of ``Pool``."""
    normalize: bool = True
    """Scale vectors to the length 1."""


@dataclasses.dataclass(frozen=True)
class Texts:
    """Texts whose vectors are wanted: either ``texts`` or ``tokens``."""

    texts: Tuple[str, ...] = ()
    tokens: Tuple[Tuple[int, ...], ...] = ()
    """Token ids, which are taken as they are."""
    dimensions: Optional[int] = None
    """Numbers of each vector to keep, from the first; None: all."""


@dataclasses.dataclass(frozen=True)
class Vector:
    """The vector of a text of ``Texts``. If a question is asked again, the vector may be sent again."""

    place: int
    """Place of the text among those of the question."""
    numbers: str
    """The numbers in base64: 32 bits each, the lowest byte first."""


@dataclasses.dataclass(frozen=True)
class Question:
    """The tokens of a prompt as an answer to it would be charged, unless it says otherwise."""

    called: str = ""
    """The client's name for the prompt, for errors; empty: as with an answer to it."""
    tokens: bool = False
    """Send the token ids with ``Accepted``. ``Finished`` always has their number."""
    token_texts: bool = False
    """Send each token as the tokenizer shows it with ``Accepted``."""
    special_tokens: Optional[bool] = None
    """Let the tokenizer add its special tokens; None: to a prompt, but not to the output of a chat template."""
    generation_prompt: bool = True
    """Let the chat template end with the beginning of the model's turn."""
    texts: Optional[Texts] = None
    """The texts, where vectors are wanted; there is no prompt then."""
