"""Errors as OpenAI's clients parse them if the conversation is ``input``. Pure."""

from __future__ import annotations

import dataclasses

from reconciler.gateway.dialects.dialect import RenderedError
from reconciler.gateway.dialects.openai import errors
from reconciler.gateway.errors import ApiError


def render_error(error: ApiError, request_id: str = "") -> RenderedError:
    """Return status, body and headers. Errors of the conversation as a whole have ``messages`` as their field
    elsewhere."""
    if error.param == "messages":
        error = dataclasses.replace(error, param="input")
    return errors.render_error(error, request_id)
