"""Where a person may be sent back to: which addresses a client may register, and which match them (case C14)."""

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

LONGEST = 2000
PLAIN = re.compile(r"[!-~]+", re.ASCII)  # printable ASCII: nothing that a browser drops or rewrites
FORBIDDEN = re.compile(r"[#\\<>\"^`{|}*]")
LOOPBACK = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?([/?].*)?", re.ASCII)
ANSWERS = frozenset({"code", "state", "iss", "error", "error_description"})
# Private-use schemes are outside of MCP's rule, so each one is allowed by its whole text (checklist S12).
CUSTOM = frozenset({"cursor://anysphere.cursor-mcp/oauth/callback"})


def may_be_registered(uri: str) -> bool:
    """Tell whether a client may register `uri`: https, http on a loopback literal, or one of `CUSTOM`."""
    if len(uri) > LONGEST or not PLAIN.fullmatch(uri) or FORBIDDEN.search(uri) or _has_answer(uri):
        return False
    if uri in CUSTOM or is_loopback_uri(uri):
        return True
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return False
    named = uri.startswith("https://") and parts.hostname and parts.hostname.strip(".")
    return bool(named) and "@" not in parts.netloc and port != 0


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
    return same_place and PLAIN.fullmatch(requested) is not None and not FORBIDDEN.search(requested)


def is_only_local(uris: tuple[str, ...]) -> bool:
    """Tell whether every address leads to a program on the person's own machine."""
    return all(is_loopback_uri(uri) or uri in CUSTOM for uri in uris)


def shown_host(uri: str) -> str:
    """Give the part of `uri` that tells people where they are sent: host and port, or the scheme of an app."""
    parts = urlsplit(uri)
    return f"{parts.scheme}: ({parts.netloc})" if uri in CUSTOM else parts.netloc


def with_answer(uri: str, answer: dict[str, str]) -> str:
    """Add `answer` to the query of `uri`, which stays as it was (RFC 6749 4.1.2); a space is %20, never `+`."""
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(answer, quote_via=quote, safe='')}"


def _has_answer(uri: str) -> bool:
    # Each of our parameters stands once in the redirect (checklist S14), and `iss` is our word (RFC 9207).
    return any(name in ANSWERS for name, _ in parse_qsl(uri.partition("?")[2], keep_blank_values=True))
