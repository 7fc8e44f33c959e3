"""What HTTP allows and no client needs: cut bodies, doubled slashes, other hosts. JSON, and nothing done."""

import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.support.raw_mcp import send
from tests.support.server import ServerProcess

REGISTRATION = json.dumps({"redirect_uris": ["http://127.0.0.1/cb"], "token_endpoint_auth_method": "none"}).encode()
AS_JSON = ("Content-Type", "application/json")
AS_FORM = ("Content-Type", "application/x-www-form-urlencoded")


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def test_a_chunked_registration_is_read_and_bounded(server: ServerProcess) -> None:
    headers, address = [AS_JSON, ("Transfer-Encoding", "chunked")], f"{server.base_url}/oauth/register"

    assert send("POST", address, headers, chunked(REGISTRATION)).status == 201
    cut = send("POST", address, headers, chunked(REGISTRATION + b" " * 1_200_000))
    assert (cut.status, cut.json["error"]) == (413, "too_large")


def test_nothing_hides_behind_the_limit_of_a_token_request(server: ServerProcess) -> None:
    headers = [AS_FORM, ("Transfer-Encoding", "chunked")]
    body = b"grant_type=refresh_token&client_id=a&x=" + b"x" * 1_100_000 + b"&client_id=b"

    assert send("POST", f"{server.base_url}/oauth/token", headers, chunked(body)).status == 413


@pytest.mark.parametrize("path", ["/oauth/register", "/oauth/token", "/login"])
def test_a_body_shorter_than_it_says_is_no_request(server: ServerProcess, path: str) -> None:
    parts = urlsplit(server.base_url)
    head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{': '.join(AS_JSON)}\r\nContent-Length: 900\r\n\r\n"
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20) as connection:
        connection.sendall(head.encode() + REGISTRATION)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()

    assert answer == b"" or b" 400 " in answer.splitlines()[0]


@pytest.mark.parametrize("path", ["/oauth//token", "//oauth/token", "/.well-known//oauth-authorization-server"])
def test_a_doubled_slash_redirects_nowhere(server: ServerProcess, path: str) -> None:
    answer = send("POST", server.base_url + path, [("Host", "evil.example"), AS_FORM], b"grant_type=x")

    assert "location" not in answer.headers
    assert b"evil.example" not in answer.raw
    assert 400 <= answer.status < 500
    assert answer.json["error"]
