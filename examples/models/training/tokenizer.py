"""The tokenizer of the tiny model: byte-level BPE that writes a value the same way everywhere.

White space, digits and punctuation are tokens of their own and never merge with letters. A name has
the same tokens after a space, after a quote and at the start of a line, so copying it from the
question into a tool call is plain repetition, which a model of this size can learn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"
START = "<|im_start|>"
END = "<|im_end|>"
SPECIAL = (END_OF_TEXT, START, END)
MARKERS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

# The scaffolding of a JSON object with strings is few tokens, which keeps tool calls short.
SCAFFOLDING = r'\{"|": "|", "|": \{"|"\}\}|"\}'
PATTERN = rf"{SCAFFOLDING}|\s|\d|\p{{L}}+|[^\s\d\p{{L}}]"


def train_tokenizer(texts: Iterable[str], size: int) -> Tokenizer:
    """Learn `size` tokens from `texts`; all 256 bytes are among them, so any text encodes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(MARKERS),
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # Markers are ordinary added tokens: decoding must show them, for tool calls to be found.
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.add_tokens(list(MARKERS))
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, template: str) -> None:
    """Write the tokenizer, its configuration and the chat template into `folder`."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": END,
        "pad_token": END_OF_TEXT,
        "unk_token": None,
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(template)
