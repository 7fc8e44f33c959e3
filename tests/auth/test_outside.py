"""auth/outside.py: which https addresses and network addresses may be called for a stranger."""

import pytest

from auth.outside import fetchable_host, is_listed, is_public


@pytest.mark.parametrize(
    "url",
    [
        "https://claude.ai/oauth/claude-code-client-metadata",
        "https://chatgpt.com/oauth/abc/client.json",
        "https://xn--bcher-kva.example/client.json",
        "https://client.example/",
        "https://client.example/c?v=2",
    ],
)
def test_the_address_of_a_document_is_taken(url):
    assert fetchable_host(url) == url.split("/")[2]


@pytest.mark.parametrize(
    "url",
    [
        "http://client.example/c",
        "HTTPS://client.example/c",
        "https://client.example",
        "https://client.example?c",
        "https:///c",
        "https://client.example:443/c",
        "https://client.example:8443/c",
        "https://client.example:/c",
        "https://user@client.example/c",
        "https://user:pass@client.example/c",
        "https://client.example@127.0.0.1/c",
        "https://Client.example/c",
        "https://client.example./c",
        "https://client.example%2e/c",
        "https://client%2eexample/c",
        "https://bücher.example/c",
        "https://client。example/c",
        "https://localhost/c",
        "https://127.0.0.1/c",
        "https://127.1/c",
        "https://2130706433/c",
        "https://0x7f.0.0.1/c",
        "https://0x7f000001/c",
        "https://[::1]/c",
        "https://[/c",
        "https://client.example]/c",
        "https://[::ffff:10.0.0.1]/c",
        "https://client..example/c",
        "https://client.example/a/../c",
        "https://client.example/./c",
        "https://client.example/%2e%2e/c",
        "https://client.example/a%2f..%2fc",
        "https://client.example/c#f",
        "https://client.example/c\\d",
        "https://client.example\\@evil.example/c",
        "https://client.example/c d",
        "https://client.example/c\t",
        "https://client.example/\x00",
        "https://client.example/é",
        "https://client.example/" + "c" * 255,
        "//client.example/c",
        "",
    ],
)
def test_every_other_spelling_is_refused(url):
    assert fetchable_host(url) is None


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700::6810:84e5", "64:ff9b::5db8:d822"])
def test_an_address_of_the_public_internet_is_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",  # a cloud's metadata
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",  # a cloud's metadata, on an address that looks public
        "169.254.169.254",  # the clouds' metadata
        "172.16.0.1",
        "192.0.0.192",  # a cloud's metadata
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",  # IPv4-compatible
        "::5db8:d822",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",  # IPv4-translated
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:0:7f00:1::",  # Teredo, its server on loopback
        "2001:db8::1",
        "2002:7f00:1::1",  # 6to4 of 127.0.0.1
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",  # a cloud's metadata
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "127.1",
        "2130706433",
        "client.example",
        "",
    ],
)
def test_an_address_of_special_use_is_not_public(address):
    assert not is_public(address)


def test_a_name_stands_for_itself_and_with_a_dot_before_it_for_all_below_too():
    names = frozenset({"claude.ai", ".example.com"})

    listed = [is_listed(host, names) for host in ("claude.ai", "example.com", "a.b.example.com")]
    unlisted = [is_listed(host, names) for host in ("x.claude.ai", "notexample.com", "com", "ai")]

    assert listed == [True] * 3
    assert unlisted == [False] * 4
