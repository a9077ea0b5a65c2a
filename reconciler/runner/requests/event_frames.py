"""Events of answers as frames. Deltas come by the thousand, and are written without a detour."""

from __future__ import annotations

import json

from reconciler.wire.codec import to_wire
from reconciler.wire.frames import encode, framed
from reconciler.wire.generation import Delta

_text = json.JSONEncoder(ensure_ascii=False).encode


def event_frame(event: object) -> bytes:
    """Return an event as a frame, briefly. Raises ``WireError`` if it is too long."""
    if type(event) is not Delta or event.calls or event.logprobs or event.vectors:
        return encode(to_wire(event, brief=True))
    tokens = ",".join(map(str, event.tokens))
    text = f',"text":{_text(event.text)}' if event.text else ""
    reasoning = f',"reasoning":{_text(event.reasoning)}' if event.reasoning else ""
    return framed(f'{{"type":"delta","request":{_text(event.request)},"tokens":[{tokens}]{text}{reasoning}}}')
