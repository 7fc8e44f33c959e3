"""Where a person may be sent back to: which addresses a client may register, and which match them (case C14)."""

import ipaddress
import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from werkzeug.urls import iri_to_uri

from core.settings import is_loopback

LONGEST = 2000
LONGEST_HOST = 253
PLAIN = re.compile(r"[!-~]+", re.ASCII)  # printable ASCII: nothing that a browser drops or rewrites
FORBIDDEN = re.compile(r"[#\\<>\"^`{|}*]")
HOST = re.compile(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*", re.ASCII)
LOOPBACK = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(?::([1-9][0-9]{0,4}))?([/?].*)?", re.ASCII)
ANSWERS = frozenset({"code", "state", "iss", "error", "error_description"})
# Private-use schemes are outside of MCP's rule, so each one is allowed by its whole text (checklist S12).
CUSTOM = frozenset({"cursor://anysphere.cursor-mcp/oauth/callback"})


def may_be_registered(uri: str) -> bool:
    """Tell whether a client may register `uri`: https, http on a loopback literal, or one of `CUSTOM`."""
    if len(uri) > LONGEST or not is_plain_text(uri) or _has_answer(uri):
        return False
    if uri in CUSTOM:
        return True
    try:
        # Werkzeug rewrites every Location, and an address that it changes or can't write is not the registered one.
        return (is_loopback_uri(uri) or _is_https(uri)) and iri_to_uri(uri) == uri
    except ValueError:
        return False


def is_loopback_uri(uri: str) -> bool:
    """Tell whether `uri` leads to a program on the person's own machine by http."""
    found = LOOPBACK.fullmatch(uri)
    return found is not None and 1 <= int(found[2] or 80) <= 65535


def matches(registered: str, requested: str) -> bool:
    """Tell whether `requested` is `registered`, letter by letter; only a loopback's port may differ (RFC 8252 7.3)."""
    if registered == requested:
        return True
    one, other = LOOPBACK.fullmatch(registered), LOOPBACK.fullmatch(requested)
    if one is None or other is None or not is_loopback_uri(requested):
        return False
    same_place = (one[1], one[3] or "") == (other[1], other[3] or "")
    return same_place and is_plain_text(requested)


def is_plain_text(uri: str) -> bool:
    """Tell whether every reader of `uri` sees the same address: printable ASCII, no fragment, no wildcard."""
    return PLAIN.fullmatch(uri) is not None and FORBIDDEN.search(uri) is None


def is_plain_host(name: str) -> bool:
    """Tell whether `name` is a host's name in lower case, and no network address."""
    if name.rpartition(".")[2][:1].isdigit():
        return False
    return len(name) <= LONGEST_HOST and HOST.fullmatch(name) is not None


def is_only_local(uris: tuple[str, ...]) -> bool:
    """Tell whether there are addresses, and every one leads to a program on the person's own machine."""
    return bool(uris) and all(is_loopback_uri(uri) or uri in CUSTOM for uri in uris)


def leads_here(uri: str) -> bool:
    """Tell whether `uri` leads to this computer, where any program could be the one that listens."""
    return uri in CUSTOM or is_loopback(urlsplit(uri).hostname or "")


def shown_host(uri: str) -> str:
    """Give the part of `uri` that tells people where they are sent: host and port, or the scheme of an app."""
    parts = urlsplit(uri)
    return f"{parts.scheme}: ({parts.netloc})" if uri in CUSTOM else parts.netloc


def with_answer(uri: str, answer: dict[str, str]) -> str:
    """Add `answer` to the query of `uri`, which stays as it was (RFC 6749 4.1.2); a space is %20, never `+`."""
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(answer, quote_via=quote, safe='')}"


def _is_https(uri: str) -> bool:
    parts = urlsplit(uri)
    return uri.startswith("https://") and "@" not in parts.netloc and parts.port != 0 and _is_host(parts.hostname or "")


def _is_host(host: str) -> bool:
    # Browsers read a name whose last label begins with a digit as an IPv4 address, in spellings that hide it.
    if ":" in host or host.rpartition(".")[2][:1].isdigit():
        return str(ipaddress.ip_address(host)) == host and "%" not in host
    return is_plain_host(host)


def _has_answer(uri: str) -> bool:
    # Each of our parameters stands once in the redirect (checklist S14), and `iss` is our word (RFC 9207).
    return any(name in ANSWERS for name, _ in parse_qsl(uri.partition("?")[2], keep_blank_values=True))
