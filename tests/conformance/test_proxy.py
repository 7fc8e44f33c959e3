"""The header-adding proxy must not change what the suite tests."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.conformance.proxy import adding_bearer

ANSWER = b"HTTP/1.1 403 Forbidden\r\nX-Odd:  Two  Blanks \r\nContent-Length: 3\r\nConnection: close\r\n\r\n{ }"


class Upstream:
    """Takes one connection, keeps what it is sent and gives one fixed answer."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._take_one, daemon=True)
        self._thread.start()
        self.port = self._listener.getsockname()[1]
        self.received = b""

    def _take_one(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            while not self.received.endswith(b"BODY"):
                self.received += connection.recv(65536)
            connection.sendall(ANSWER)

    def close(self) -> None:
        self._thread.join(5)
        self._listener.close()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


def exchange(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_the_bearer_is_added_and_every_other_byte_is_kept(upstream: Upstream) -> None:
    start = b"POST /mcp?x=%20 HTTP/1.1\r\n"
    kept = b"Host: evil.example.com\r\norigin: http://evil.example.com\r\nMCP-METHOD:   ping  \r\nContent-Length: 4\r\n"

    with adding_bearer(upstream.port, "cs_at_x") as proxy:
        answer = exchange(proxy.port, start + b"Connection: keep-alive\r\n" + kept + b"\r\nBODY")

    assert upstream.received == start + kept + b"Authorization: Bearer cs_at_x\r\nConnection: close\r\n\r\nBODY"
    assert answer == ANSWER
