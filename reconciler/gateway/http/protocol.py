"""HTTP as uvicorn speaks it, but for its answer to bytes that are no request."""

from __future__ import annotations

from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reconciler.gateway.dialects.table import DEFAULT
from reconciler.gateway.errors import invalid


class Protocol(HttpToolsProtocol):
    """Refuses what is not HTTP in the shape in which everything else is refused."""

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that cannot be read, and close the connection."""
        text = f"this is not a valid HTTP request: {msg}"
        rendered = DEFAULT.render_error(invalid(text, None, "invalid_http"))
        head = (
            f"HTTP/1.1 {rendered.status} {HTTPStatus(rendered.status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(rendered.body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + rendered.body)
        self.transport.close()
