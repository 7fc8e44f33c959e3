"""A proxy on loopback that adds the bearer token, since the public suite can't send one."""

import contextlib
import http.client
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from io import BufferedIOBase
from typing import TypeVar

LONGEST_LINE = 65536
Proxy = TypeVar("Proxy", bound="HeaderProxy")


class HeaderProxy(socketserver.ThreadingTCPServer):
    """Passes every byte of each request and answer on as it came, `Host` and `Origin` included.

    Two things differ: the added header, and `Connection: close`, so that the end of an answer is the end of its stream.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, upstream_port: int, header: tuple[str, str], exchange: "type[_Exchange] | None" = None) -> None:
        super().__init__(("127.0.0.1", 0), exchange or _Exchange)
        self.upstream_port, self.header = upstream_port, header

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])


class _Exchange(socketserver.StreamRequestHandler):
    """One connection of the suite: one request and its answer."""

    server: HeaderProxy

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the suite hangs up on streams that it has seen enough of
            start, headers = _read_head(self.rfile)
            if start:
                self._pass_on(start, headers)

    def _pass_on(self, start: bytes, headers: list[bytes]) -> None:
        with socket.create_connection(("127.0.0.1", self.server.upstream_port)) as upstream:
            kept = [line for line in headers if not _is(line, b"connection")]
            added = ": ".join(self.server.header).encode()
            upstream.sendall(b"".join([start, *kept, added, b"\r\nConnection: close\r\n\r\n"]))
            upstream.sendall(self.rfile.read(_length_of(headers)))
            while part := upstream.recv(65536):
                self.wfile.write(part)


class _Offering(_Exchange):
    """The same, but the server's own document offers one way of client authentication alone."""

    server: "OfferingProxy"

    def _pass_on(self, start: bytes, headers: list[bytes]) -> None:
        if not start.startswith(b"GET /.well-known/oauth-authorization-server"):
            super()._pass_on(start, headers)
            return
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.server.upstream_port)) as upstream:
            upstream.request("GET", start.split()[1].decode())
            document = json.loads(upstream.getresponse().read())
        assert self.server.method in document["token_endpoint_auth_methods_supported"]
        document["token_endpoint_auth_methods_supported"] = [self.server.method]
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
        self.wfile.write(head.encode() + b"\r\n\r\n" + body)


class OfferingProxy(HeaderProxy):
    """Stands before a server whose base URL is the proxy's, since the suite takes `none` wherever it is offered."""

    def __init__(self, upstream_port: int, method: str) -> None:
        super().__init__(upstream_port, ("X-Passed-By", "proxy"), _Offering)
        self.method = method


@contextlib.contextmanager
def adding_bearer(upstream_port: int, token: str) -> Iterator[HeaderProxy]:
    """Run a proxy before 127.0.0.1:`upstream_port` that adds `Authorization: Bearer token` to every request."""
    with running(HeaderProxy(upstream_port, ("Authorization", f"Bearer {token}"))) as proxy:
        yield proxy


@contextlib.contextmanager
def running(made: Proxy) -> Iterator[Proxy]:
    """Let a proxy serve."""
    with made as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


def _read_head(stream: BufferedIOBase) -> tuple[bytes, list[bytes]]:
    start = stream.readline(LONGEST_LINE)
    headers = []
    while (line := stream.readline(LONGEST_LINE)) not in (b"\r\n", b"\n", b""):
        headers.append(line)
    return start, headers


def _is(line: bytes, name: bytes) -> bool:
    return line.partition(b":")[0].lower() == name


def _length_of(headers: list[bytes]) -> int:
    if any(_is(line, b"transfer-encoding") for line in headers):
        raise ValueError("the proxy takes bodies of a stated length only")
    lengths = [line.partition(b":")[2] for line in headers if _is(line, b"content-length")]
    return int(lengths[0]) if lengths else 0
