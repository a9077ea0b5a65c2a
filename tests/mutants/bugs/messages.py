"""What Anthropic's clients rely on. Each entry takes one piece of it away."""

from __future__ import annotations

from ast import BinOp, If, IfExp, UnaryOp

from reconciler.gateway.dialects.anthropic import blocks, conversation, errors, messages, tools
from tests.mutants.mutant import Mutant
from tests.mutants.operators import always, keep, never

REQUEST = ("tests/gateway/dialects/anthropic/test_request.py",)
ANSWERS = ("tests/gateway/dialects/anthropic/test_messages.py",)

MESSAGES = (
    Mutant(
        "bills-are-read",
        conversation._system,
        always(UnaryOp),
        "no session of Claude Code finds what was read for another one",
        REQUEST,
    ),
    Mutant(
        "sides-take-no-turns",
        conversation._Conversation.add,
        never(If),
        "templates that want turns refuse conversations of Anthropic's clients",
        REQUEST,
    ),
    Mutant(
        "a-failure-looks-like-a-result",
        conversation._result,
        never(),
        "the model takes a message of a failed tool for what it asked for",
        REQUEST,
    ),
    Mutant(
        "a-type-is-written-into-a-header",
        tools.parse_tools,
        keep(IfExp, "body", 0, 3),
        "clients end the headers of their answers, and write their own",
        REQUEST,
    ),
    Mutant(
        "white-space-is-a-block",
        blocks.Blocks._say,
        never(If, 1, 3),
        "Anthropic refuses a conversation that began here",
        ANSWERS,
    ),
    Mutant(
        "a-call-begins-without-arguments",
        blocks.Blocks._continue,
        always(If, 0, 4),
        "what only looks like a call is a complete one to streaming clients",
        ANSWERS,
    ),
    Mutant(
        "a-withdrawn-call-is-sent",
        messages.MessageReply._keep,
        never(If),
        "clients run a call that the model did not make",
        ANSWERS,
    ),
    Mutant(
        "cached-tokens-count-twice",
        messages._usage,
        keep(BinOp, "left", 0, 2),
        "agents take their context for full, and compact it",
        ANSWERS,
    ),
    Mutant(
        "a-busy-endpoint-looks-broken",
        errors.render_error,
        keep(IfExp, "orelse"),
        "agents report a broken server instead of waiting",
        ANSWERS,
    ),
    Mutant(
        "agents-do-not-compact",
        errors._message,
        never(If),
        "a long session of an agent ends instead of going on with less",
        ANSWERS,
    ),
)
