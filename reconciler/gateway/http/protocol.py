"""HTTP as uvicorn speaks it, but for what it says to bytes that are no request."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from reconciler.gateway.errors import invalid

from .shape import error_body


class Protocol(HttpToolsProtocol):
    """Refuses what is not HTTP in the shape in which everything else is refused."""

    def send_400_response(self, msg: str) -> None:
        body = error_body(invalid(f"this is no HTTP request that can be read: {msg}", None, "invalid_http"))
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
