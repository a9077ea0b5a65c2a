"""Parameters of Anthropic's clients alone; ``parameter_table`` has them with all others. Pure.

The names are from anthropic 2.13.0 (``types/beta/message_create_params.py``).
"""

from __future__ import annotations

from .parameter import ANTHROPIC, LLAMA, OF_OPENAI, ONLY_MESSAGES, OPENAI, VLLM, Row, each

ANTHROPIC_ROWS: tuple[Row, ...] = (
    Row(
        each("system"),
        (ANTHROPIC,),
        "A string or blocks of text: the first system message.",
        ONLY_MESSAGES,
        on=ONLY_MESSAGES,
    ),
    Row(each("system", "", []), (ANTHROPIC,), "use a message with the role `system`", on=OF_OPENAI),
    Row(
        each("stop_sequences"),
        (ANTHROPIC,),
        "Up to 64 strings, each of at most 4096 characters, looked for in the text alone.",
        ONLY_MESSAGES,
        on=ONLY_MESSAGES,
    ),
    Row(each("stop_sequences", []), (ANTHROPIC,), "use `stop`", on=OF_OPENAI),
    Row(
        each("output_config output_format"),
        (ANTHROPIC,),
        "`format`, or `output_format` itself, is a JSON Schema for the answer. `effort` reaches the chat template as "
        "`reasoning_effort`; `task_budget` has no effect.",
        ONLY_MESSAGES,
        on=ONLY_MESSAGES,
    ),
    Row(
        {**each("output_format"), **each("output_config", {})},
        (ANTHROPIC,),
        "use `response_format`, or `text` of responses",
        on=OF_OPENAI,
    ),
    Row(each("reasoning_effort"), (OPENAI, VLLM, LLAMA), "use `effort` of `output_config`", on=ONLY_MESSAGES),
    Row(
        each("metadata"),
        (ANTHROPIC,),
        "`user_id` is used as `session_id` is elsewhere.",
        ONLY_MESSAGES,
        on=ONLY_MESSAGES,
    ),
    Row(
        each("context_management"),
        (ANTHROPIC,),
        "An object. No edit is applied, and `applied_edits` of the answer says so.",
        ONLY_MESSAGES,
        on=ONLY_MESSAGES,
    ),
    Row(
        each("context_management", {}, []),
        (ANTHROPIC,),
        "send the messages that the model is to see",
        on=OF_OPENAI,
    ),
)
"""Names that work on one path, with their treatment on the others, and names of parameters that have another name
here."""
