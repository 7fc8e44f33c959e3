"""Which https addresses and which network addresses this server may call for a client (checklist G3, G7)."""

import ipaddress
import re
from urllib.parse import unquote, urlsplit

from werkzeug.urls import iri_to_uri

from auth.redirects import is_plain_host, is_plain_text

LONGEST = 255  # a client's id is one of them
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
UNICAST = ipaddress.IPv6Network("2000::/3")
# Beside what `ipaddress` calls not global: whatever is registered for special use, and one cloud's own metadata host.
SPECIAL = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",
        "192.88.99.0/24",
        "168.63.129.16/32",
        "2001::/23",  # Teredo among others: an IPv4 address inside may be any
        "2001:db8::/32",
        "2002::/16",  # 6to4, for the same reason
        "3fff::/20",
    )
)


def fetchable_host(url: str) -> str | None:
    """Give the host of an https URL that may be fetched, None of any other.

    One spelling for each: a public name in lower case, no port (it is 443), user name, fragment or dot segment.
    """
    if len(url) > LONGEST or not url.startswith("https://") or not is_plain_text(url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket without its other
        return None
    if not is_plain_host(parts.netloc) or "." not in parts.netloc or not parts.path:
        return None
    if any(segment in (".", "..") for segment in re.split(r"[/\\]", unquote(parts.path))):
        return None
    return parts.netloc if iri_to_uri(url) == url else None


def is_listed(host: str, names: frozenset[str]) -> bool:
    """Tell whether `names` has the host, or a `.name` that it is or stands below."""
    labels = host.split(".")
    above = (f".{'.'.join(labels[start:])}" for start in range(len(labels)))
    return host in names or any(name in names for name in above)


def is_public(text: str) -> bool:
    """Tell whether a network address is one of the public internet; what can't be read is not (RFC 6890)."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        carried = _carried(address)
        if carried is None and address not in UNICAST:
            return False
        address = carried or address
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    return not any(address in network for network in SPECIAL)


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Give the IPv4 address that this one leads to."""
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped
