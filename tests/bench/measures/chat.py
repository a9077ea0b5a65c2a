"""Time to the first token in each turn of a chat that begins with a long prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tests.bench.figures import Figure, paired
from tests.bench.sides import Ours, Peer, both, undisturbed
from tests.bench.streams import long_text, said, stream

PROMPT_TOKENS = 4096
CONTEXT = 8192
TURNS = 20
ANSWER_TOKENS = 16


def measure(quick: bool) -> Iterator[Figure]:
    """On two ranks: the first turn, which reads the prompt, and all later ones."""
    tokens, turns, times = (512, 3, 1) if quick else (PROMPT_TOKENS, TURNS, 3)
    first: tuple[list[float], list[float]] = [], []
    later: tuple[list[float], list[float]] = [], []
    with both(2, CONTEXT, 4) as (our_side, peer):
        for number in range(times):
            system = (
                f"Chat {number}. {long_text(tokens)}"  # another one each time, so that nobody has read it
            )
            with undisturbed(peer):
                mine = asyncio.run(chat(our_side, system, turns))
            for seconds, place in ((mine, 0), (asyncio.run(chat(peer, system, turns)), 1)):
                first[place].append(seconds[0])
                later[place].extend(seconds[1:])
    yield paired(f"chat, {tokens} tokens: first turn", "s", *first)
    yield paired(f"the same: turns 2 to {turns}", "s", *later, "<= 1.1")


async def chat(side: Ours | Peer, system: str, turns: int) -> list[float]:
    """Seconds to the first token of each turn."""
    await stream(side.url, side.model, "Hello", 4)
    conversation, seconds = [said("system", system)], []
    for turn in range(turns):
        conversation.append(said("user", f"Question {turn}: which node answers?"))
        answer = await stream(side.url, side.model, conversation, ANSWER_TOKENS)
        seconds.append(answer.first)
        conversation.append(said("assistant", answer.text))
    return seconds
