"""The content of messages as text, which is all that models take here. Pure.

An agent sends its whole history with every request, so a part that is refused once would be refused for ever. Only
the newest message of the user is refused for such a part. In older messages and in results of tools, a placeholder
stands for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.gateway.errors import invalid
from reconciler.wire.generation import Replaced

from .fields import Fields

IMAGES, DOCUMENTS, AUDIO, OTHERS = "images", "documents", "audio", "other-parts"
REPLACED: Mapping[str, tuple[str, str, str]] = {
    IMAGES: (
        "images in older messages and in results of tools",
        "`[image omitted: this model reads text only]`",
        "the image",
    ),
    DOCUMENTS: (
        "files and documents there, but for text",
        "`[document NAME omitted: this model reads text only]`",
        "the document",
    ),
    AUDIO: ("audio there", "`[audio omitted: this model reads text only]`", "the recording"),
    OTHERS: (
        "other parts and items there, such as `web_search_call`",
        "the same with their type",
        "what only the provider's own servers know",
    ),
}
"""By the name in the answer's header: the content that is not taken, its replacement, and the loss."""
_NOUNS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("image", "image_url", "input_image", "computer_screenshot"), (IMAGES, "image")),
    **dict.fromkeys(("document", "file", "input_file", "container_upload"), (DOCUMENTS, "document")),
    **dict.fromkeys(("audio", "input_audio"), (AUDIO, "audio")),
}
_TEXTS = ("text", "refusal", "thinking")
"""The fields with the text of a part, whatever its type."""
_UNNAMEABLE = re.compile(r"[^\w .,()+-]+")
_NAME_MAX = 80


class Contents:
    """Reads the contents of one conversation, and counts the replaced parts."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @property
    def replaced(self) -> tuple[Replaced, ...]:
        """Return the replaced kinds of content, with the number of each."""
        return tuple(Replaced(kind, count) for kind, count in self._counts.items())

    def text(self, fields: Fields, name: str, newest: bool = False, required: bool = False) -> str:
        """Return a field that is a string or a list of parts. Unless it is ``required``, it may be absent or anything
        else.

        Raises ``ApiError`` (400) with the path of a faulty field and, in the ``newest`` message, of a part that is no
        text.
        """
        return "\n".join(self.texts(fields, name, newest, required))

    def texts(self, fields: Fields, name: str, newest: bool = False, required: bool = False) -> Sequence[str]:
        """Return such a field as the texts of its parts."""
        value = fields.value(name)
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list):
            entries = fields.entries(name)
            return [each if isinstance(each, str) else self.part(each, name, newest) for each in entries]
        if required:
            raise invalid(f"{name} must be a string or a list of text parts", fields.path(name))
        return () if value is None else (fields.written(value, fields.path(name)),)

    def part(self, part: Fields, name: str = "content", newest: bool = False) -> str:
        """Return a part as text, or its placeholder."""
        known, kind = _text_of(part, self), part.value("type")
        if known is not None:
            return known
        if not isinstance(kind, str) or kind in ("text", "input_text", "output_text"):
            if newest:
                raise invalid(f"{name} must be text parts: this endpoint takes text only", part.path("text"))
            return part.written(part.plain(), part.path(""))
        if newest:
            text = f"{name} of type {kind[:60]!r} is not supported: this endpoint takes text only"
            raise invalid(text, part.path("type"), "unsupported_content")
        return self.omit(kind, _name_of(part))

    def omit(self, kind: str, name: str = "") -> str:
        """Return the placeholder for a part or item of a type."""
        counted, noun = _NOUNS.get(kind, (OTHERS, kind))
        self._counts[counted] += 1
        what = _UNNAMEABLE.sub(" ", f"{noun} {name}").strip()[:_NAME_MAX]
        return f"[{what} omitted: this model reads text only]"


def _text_of(part: Fields, contents: Contents) -> str | None:
    """Return the text of a part; None if it has none."""
    for key in _TEXTS:
        if isinstance(part.value(key), str):
            return str(part.value(key))
    kind, source = part.value("type"), part.value("source")
    if kind == "document" and isinstance(source, dict):
        given = Fields(source, part.path("source"))
        if given.value("type") == "text":
            return _headed(part, given.optional_text("data") or "")
        if given.value("type") == "content":
            return _headed(part, contents.text(given, "content"))
    if kind == "search_result":
        return _headed(part, contents.text(part, "content"), part.optional_text("source"))
    return None


def _headed(part: Fields, text: str, source: str | None = None) -> str:
    heads = (part.optional_text("title"), source, part.optional_text("context"), text)
    return "\n".join(head for head in heads if head)


def _name_of(part: Fields) -> str:
    """Return the name of a document."""
    file: Any = part.value("file")
    names = (
        part.value("title"),
        part.value("filename"),
        file.get("filename") if isinstance(file, dict) else None,
    )
    return next((name for name in names if isinstance(name, str)), "")
