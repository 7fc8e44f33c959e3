"""auth/redirects.py: which addresses may be registered, and what matches them."""

import pytest

from auth.redirects import is_loopback_uri, is_only_local, matches, may_be_registered, with_answer

CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"


@pytest.mark.parametrize(
    "uri",
    [
        "https://claude.ai/api/mcp/auth_callback",
        "https://a.example:8443/cb?tenant=1",
        "https://" + "a" * 63 + ".xn--bcher-kva.example/cb",
        "https://192.0.2.1/cb",
        "https://[2001:db8::1]:8443/cb",
        "http://127.0.0.1/callback",
        "http://127.0.0.1:33418/",
        "http://localhost:8787/callback",
        "http://[::1]:5/callback",
        CURSOR,
    ],
)
def test_what_real_clients_register_is_taken(uri):
    assert may_be_registered(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///x",
        "vbscript:x",
        "http://evil.example/cb",
        "https://u@evil.example/cb",
        "https://a.example/cb#f",
        "https://*.example/cb",
        "https:///cb",
        "https://",
        "https://a.example:0/cb",
        "https://a.example:99999/cb",
        "https://[::1/cb",
        "//a.example/cb",
        "https:a.example",
        "http://localhost.evil.example/",
        "http://127.0.0.1:80@evil.example/",
        "http://2130706433/callback",
        "http://127.0.0.2/callback",
        "http://127.0.0.1:70000/callback",
        "http://127.0.0.1\\@evil.example/",
        "https://a.example/\t/cb",
        "https://a.example/c b",
        "https://a.example/cb\n",
        "https://ä.example/cb",
        "cursor://anysphere.cursor-mcp/oauth/callback/",
        "cursor://evil/oauth/callback",
        "https://a.example/cb?iss=https://evil.example",
        "https://a.example/cb?code=1",
        "https://a.example/" + "a" * 2000,
        "https://a..b/cb",
        "https://.a/cb",
        "https://a./cb",
        "https://" + "a" * 64 + ".example/cb",
        "https://" + "a." * 127 + "example/cb",
        "https://claude.ai%2eevil.example/cb",
        "https://Claude.ai/cb",
        "https://a_b.example/cb",
        "https://a.example:/cb",
        "https://a.example:0443/cb",
        "https://a.example/c[b]",
        "https://2130706433/cb",
        "https://0x7f.1/cb",
        "https://127.1/cb",
        "https://[::ffff:7f00:1%25a]/cb",
        "https://[0::1]/cb",
        "https://[v1.a]/cb",
        "http://localhost:/cb",
        "http://localhost:080/cb",
        "http://localhost:8080/c[b]",
    ],
)
def test_what_leads_elsewhere_is_not_registered(uri):
    assert not may_be_registered(uri)


@pytest.mark.parametrize(
    ("registered", "requested"),
    [
        ("http://127.0.0.1/callback", "http://127.0.0.1:5/callback"),
        ("http://127.0.0.1:33418/callback", "http://127.0.0.1:65535/callback"),
        ("http://localhost:3118/callback", "http://localhost/callback"),
        ("http://[::1]/callback", "http://[::1]:5/callback"),
        ("https://claude.ai/cb", "https://claude.ai/cb"),
    ],
)
def test_only_the_port_of_a_loopback_address_may_differ(registered, requested):
    assert matches(registered, requested)


@pytest.mark.parametrize(
    ("registered", "requested"),
    [
        ("http://127.0.0.1/callback", "http://localhost/callback"),
        ("http://127.0.0.1/callback", "http://[::1]:5/callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:5/callback/"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:5/Callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:5/callback?x=1"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:5/callback#f"),
        ("http://127.0.0.1/callback", "https://127.0.0.1:5/callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1.evil.example:5/callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:5@evil.example/callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:0/callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:99999/callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:٥/callback"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:5/callback\n"),
        ("http://127.0.0.1/callback", "http://127.0.0.1:/callback"),
        ("https://claude.ai/cb", "https://claude.ai:443/cb"),
        ("https://claude.ai/cb", "https://claude.ai/cb?x"),
        ("https://claude.ai/cb", "HTTPS://claude.ai/cb"),
    ],
)
def test_everything_else_must_be_the_same_letter_by_letter(registered, requested):
    assert not matches(registered, requested)


def test_the_answer_keeps_the_query_and_encodes_a_plus_and_a_space():
    location = with_answer("https://a.example/cb?t=a+b", {"state": "a+b c&é"})

    assert location == "https://a.example/cb?t=a+b&state=a%2Bb%20c%26%C3%A9"


def test_local_means_this_machine_and_nothing_else():
    assert is_only_local((CURSOR, "http://localhost/cb"))
    assert not is_only_local((CURSOR, "https://a.example/cb"))
    assert not is_loopback_uri("https://localhost/cb")
