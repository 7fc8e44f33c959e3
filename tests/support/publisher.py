"""The host of clients' metadata documents: real TLS on loopback, and each answer as a test says, byte by byte."""

import datetime as dt
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from auth.fetching import Fetcher

PUBLIC = "93.184.216.34"  # where its names seem to be
NAMES = ("client.example", "keys.example", "other.example", "chatgpt.com", "claude.ai")
WHERE = "publisher.json"  # a file in an instance: the port and the authority of its publisher


@dataclass(slots=True)
class Page:
    """One raw answer; with `drip`, a byte after so many seconds each."""

    raw: bytes
    drip: float = 0.0


@dataclass(slots=True)
class Publisher:
    """Serves `pages` by URL and remembers what was asked; its certificates are of the authority in that file."""

    port: int
    authority: Path
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def publish(self, url: str, content: Any, *, status: str = "200 OK", **headers: str) -> None:
        """Serve JSON (bytes as they are) with a length; `Cache_Control="…"` sets a header, None takes one away."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        given: dict[str, Any] = {"Content_Type": "application/json", "Content_Length": len(body)} | headers
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value is not None]
        head = "\r\n".join([f"HTTP/1.1 {status}", *lines, "Connection: close"])
        self.pages[url] = Page(f"{head}\r\n\r\n".encode() + body)

    def publish_client(self, url: str, **members: Any) -> dict[str, Any]:
        """Serve the document of a public client on this computer, with `members` (None takes one away)."""
        document = {
            "client_id": url,
            "client_name": "Published client",
            "redirect_uris": ["http://127.0.0.1/callback"],
            "token_endpoint_auth_method": "none",
        } | members
        document = {name: value for name, value in document.items() if value is not None}
        self.publish(url, document)
        return document

    def tell(self, folder: Path) -> None:
        """Let a server of this instance find this publisher (tests/support/fetching_app.py)."""
        (folder / WHERE).write_text(json.dumps({"port": self.port, "authority": str(self.authority)}))

    def fetcher(self, **replaced: Any) -> Fetcher:
        """Return a fetcher for which every name is at `PUBLIC`, and that is here."""
        return fetcher_to({"port": self.port, "authority": str(self.authority)}, **replaced)


def fetcher_to(where: Mapping[str, Any], **replaced: Any) -> Fetcher:
    """Return a fetcher whose connections all lead to a publisher, with its own rules untouched."""
    given: dict[str, Any] = {
        "resolve": lambda _host: [PUBLIC],
        "connect": lambda _address, seconds: socket.create_connection(("127.0.0.1", where["port"]), timeout=seconds),
        "trust": lambda: ssl.create_default_context(cafile=where["authority"]),
    }
    return Fetcher(**given | replaced)


@contextmanager
def publishing(folder: Path) -> Iterator[Publisher]:
    """Run a publisher."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority, chain = _certificates(folder)
    context.load_cert_chain(chain)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        publisher = Publisher(listener.getsockname()[1], authority)
        threading.Thread(target=_serve, args=(listener, context, publisher), daemon=True).start()
        yield publisher
        listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, context: ssl.SSLContext, publisher: Publisher) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection, context, publisher), daemon=True).start()


def _answer(plain: socket.socket, context: ssl.SSLContext, publisher: Publisher) -> None:
    with suppress(OSError), plain, context.wrap_socket(plain, server_side=True) as connection:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536) or b"\r\n\r\n"
        lines = head.decode("latin-1").split("\r\n")
        host = next((line[6:] for line in lines if line.lower().startswith("host: ")), "")
        url = f"https://{host}{lines[0].split(' ')[1]}"
        publisher.asked.append(url)
        page = publisher.pages.get(url, Page(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))
        if not page.drip:
            connection.sendall(page.raw)
            return
        for byte in page.raw:
            connection.sendall(bytes((byte,)))
            time.sleep(page.drip)


def _certificates(folder: Path) -> tuple[Path, Path]:
    """Make an authority and a certificate for `NAMES`; return its file and the one with key and certificate."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tests")])
    now = dt.datetime.now(dt.UTC)

    def builder(subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(days=1))
        return made.not_valid_after(now + dt.timedelta(days=2))

    of_authority = builder(issuer, authority_key.public_key())
    of_authority = of_authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    names = x509.SubjectAlternativeName([x509.DNSName(name) for name in NAMES])
    of_host = builder(x509.Name([]), key.public_key()).add_extension(names, critical=True)
    authority, chain = folder / "authority.pem", folder / "chain.pem"
    pem = serialization.Encoding.PEM
    authority.write_bytes(of_authority.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain.write_bytes(private + of_host.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    return authority, chain
