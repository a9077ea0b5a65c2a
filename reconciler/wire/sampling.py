"""The choice of an answer's tokens, and its end. The deployment decides what a request leaves open, else the model.
Pure.

The gateway knows the deployment, and rank 0 the model's ``generation_config.json``: each settles in its turn what is
still open.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterable, Optional, Tuple


@dataclasses.dataclass(frozen=True)
class Bias:
    """An addition to the log-probability of one token."""

    token: int
    by: float


@dataclasses.dataclass(frozen=True)
class Sampling:
    """The choice of the next token. ``temperature`` 0 is greedy, and then only ``biases`` and penalties matter."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 is off."""
    min_p: float = 0.0
    seed: int = 0
    """The gateway draws a seed where the client gave none, so that another group can continue the answer."""
    biases: Tuple[Bias, ...] = ()
    repetition_penalty: float = 1.0
    """Divides the logits of tokens of prompt and answer, or multiplies those below 0. 1 is off."""
    frequency_penalty: float = 0.0
    """Subtracted from the logit of a token once for each time that the answer has it."""
    presence_penalty: float = 0.0
    """Subtracted from the logits of the answer's tokens."""

    @property
    def penalizes(self) -> bool:
        """Return whether the choice depends on earlier tokens in other ways than through the model."""
        return self.repetition_penalty != 1.0 or self.frequency_penalty != 0.0 or self.presence_penalty != 0.0


@dataclasses.dataclass(frozen=True)
class Ending:
    """The tokens that end an answer."""

    tokens_min: int = 0
    """Before the answer has this many tokens, no end token is chosen, and stop strings are ignored."""
    ignore_end: bool = False
    """Continue the answer after the model's end token."""
    stop_tokens: Tuple[int, ...] = ()
    """Further tokens that end it. Their text is not part of it."""


PATTERN_MAX, COUNT_MAX = 4096, 1000
"""The longest pattern, in tokens, and the most repetitions: a rank remembers as many tokens of each answer."""


@dataclasses.dataclass(frozen=True)
class Repetition:
    """The repetition that ends an answer: its last tokens are one pattern, ``count`` times in a row. The fields are
    vLLM's ``RepetitionDetectionParams`` (vllm/sampling_params.py)."""

    pattern_max: int
    """Most tokens of the pattern; 0: repetition ends no answer."""
    pattern_min: int
    """Fewest tokens of the pattern, at least 1. A shorter pattern is found as a longer one that has it several
    times."""
    count: int
    """A number of at least 2."""


BY_DEFAULT = Sampling()
"""Every setting is off or unset."""
BY_MODEL = Ending()
"""The model's end tokens end the answer."""


OPEN = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""The fields of ``Sampling`` that have such defaults."""


@dataclasses.dataclass(frozen=True)
class SamplingDefaults:
    """Values of the fields of ``Sampling`` with the same names; None: unset here."""

    temperature: Optional[float] = None
    top_p: Optional[float] = None
    top_k: Optional[int] = None
    min_p: Optional[float] = None
    repetition_penalty: Optional[float] = None


def known_of(defaults: SamplingDefaults, unset: Iterable[str]) -> Dict[str, Any]:
    """Return the defaults of the ``unset`` fields of a ``Sampling``, by name."""
    found = {name: getattr(defaults, name) for name in unset if name in OPEN}
    return {name: value for name, value in found.items() if value is not None}
