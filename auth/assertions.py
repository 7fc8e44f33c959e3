"""Clients that prove themselves by a signature: private_key_jwt (RFC 7523 2.2 and 3, RFC 8725, case C12)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from sqlalchemy import exists, select
from sqlalchemy.dialects import postgresql, sqlite

from auth import documents, key_sets
from auth.clients import Client
from auth.documents import BadDocument, read_object
from auth.fetched import Counted, HostRefused, Library
from auth.fetching import NotFetched
from auth.key_sets import PublicKey, keys_of_document, keys_of_set
from auth.metadata import SIGNING_ALGORITHMS, token_endpoint
from auth.models import grant, replay
from auth.outside import fetchable_host
from auth.throttle import Key
from core.clock import Clock, from_us, to_us
from core.db import Database
from core.errors import TooMany, Unavailable
from core.ids import digest_of
from core.purge import Rows, take_some
from core.settings import Settings

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LONGEST = 8192
HOST_FACTOR = 10  # fetches of keys in vain from one host: 50 in 15 minutes
LONGEST_JTI = 500
SKEW = timedelta(minutes=1)  # between the client's clock and ours
LONGEST_LIFE = timedelta(hours=1)
KINDS = ("jwt", "client-authentication+jwt")  # a token made for something else is no proof here (RFC 8725 3.11)
LAST_SECOND = 253_402_300_799  # of the year 9999, the last that a date can name
HEADERS = jws.JWSRegistry(algorithms=list(SIGNING_ALGORITHMS), strict_check_header=False)


class BadAssertion(Exception):
    """An assertion that proves nothing; the sentence says why, and repeats nothing of it."""


class KeysUnavailable(Unavailable):
    """A client's keys can't be fetched, so nothing is said about its signature."""

    code = "temporarily_unavailable"
    public = "The client’s keys can’t be fetched. Try again in a moment."
    remedy = "Try again; when it stays so, the program's maker has to look at its document and its jwks_uri."


class Assertions:
    """Judges the signed statements of clients; each is good for one use."""

    def __init__(self, *, database: Database, library: Library, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._library = library
        self._clock = clock
        self._audiences = (settings.issuer, token_endpoint(settings))

    def check(self, client: Client, assertion: str, *, refreshing: bool) -> None:
        """Do nothing when the assertion proves `client`; raise BadAssertion, or KeysUnavailable.

        What costs nothing is checked first: keys are fetched only for a client that somebody connected, and only for
        an assertion that is good but for its signature. While `refreshing`, keys of yesterday serve too.
        """
        signed = _read(assertion)
        claims = _claims(signed.payload)
        _check_header(signed.headers(), client)
        expires_at = self._check_claims(claims, client)
        self._require_connected(client)
        if not any(_is_signed_by(signed, keys) for keys in self._keys(client, refreshing=refreshing)):
            raise BadAssertion("The assertion is signed by none of the client's keys.")
        self._use_up(client, claims["jti"], expires_at)

    def _check_claims(self, claims: dict[str, Any], client: Client) -> datetime:
        now = self._clock.now()
        if claims.get("iss") != client.id or claims.get("sub") != client.id:
            raise BadAssertion("The assertion's iss and sub must be the client id.")
        audience = claims.get("aud")
        if isinstance(audience, list) and len(audience) == 1:  # among several, another one could use it here
            audience = audience[0]
        if audience not in self._audiences:
            raise BadAssertion("The assertion's aud must be this server's issuer or token endpoint.")
        expires_at, issued_at = _moment(claims, "exp"), _moment(claims, "iat")
        if expires_at is None or not now - SKEW < expires_at <= now + LONGEST_LIFE + SKEW:
            raise BadAssertion("The assertion has expired, or would live for more than an hour.")
        if issued_at is not None and not now - LONGEST_LIFE - SKEW < issued_at <= now + SKEW:
            raise BadAssertion("The assertion's iat is in the future or more than an hour ago.")
        if (_moment(claims, "nbf") or now) > now + SKEW:
            raise BadAssertion("The assertion isn't valid yet.")
        jti = claims.get("jti")
        if not isinstance(jti, str) or not 0 < len(jti) <= LONGEST_JTI:
            raise BadAssertion("The assertion has no jti.")
        return expires_at

    def _require_connected(self, client: Client) -> None:
        connected = exists().where(grant.c.client_id == client.id, grant.c.revoked_at.is_(None))
        with self._database.read() as connection:
            if not connection.execute(select(connected)).scalar():
                raise BadAssertion("Nobody has connected this client.")

    def _keys(self, client: Client, *, refreshing: bool) -> Iterator[tuple[PublicKey, ...]]:
        """Give the keys that are kept and then, for one that was changed, those that stand there now."""
        url, read, most = client.id, keys_of_document(client.id), documents.MOST_BYTES
        if client.jwks_uri is not None:
            url, read, most = client.jwks_uri, keys_of_set, key_sets.MOST_BYTES
        try:
            yield self._library.read(url, read, most=most, counted=_key_fetches(url), may_be_stale=refreshing)
            again = self._library.read_again(url, read, most=most)
        except HostRefused:
            raise BadAssertion("This server's settings refuse the host of the client's keys.") from None
        except (NotFetched, BadDocument, TooMany, Unavailable) as error:
            raise KeysUnavailable(detail=error.detail or error.public) from None
        if again is not None:
            yield again

    def _use_up(self, client: Client, jti: str, expires_at: datetime) -> None:
        row = {"digest": digest_of(f"{client.id} {jti}"), "expires_at": to_us(expires_at)}
        with self._database.write() as connection:
            take_some(connection, used_assertions(self._clock.now()))
            dialect = sqlite if self._database.is_sqlite else postgresql
            first = dialect.insert(replay).values(row).on_conflict_do_nothing()
            first = first.execution_options(preserve_rowcount=True)  # else psycopg's is gone for an INSERT
            if connection.execute(first).rowcount != 1:
                raise BadAssertion("The assertion was used already.")


def subject_of(assertion: str) -> str:
    """Give the client id that an assertion names, unproven; raise BadAssertion."""
    subject = _claims(_read(assertion).payload).get("sub")
    if not isinstance(subject, str):
        raise BadAssertion("The assertion's sub must be the client id.")
    return subject


def used_assertions(now: datetime) -> Rows:
    """Give the assertions that have expired, so that their second use is refused without a record."""
    over = replay.c.expires_at < to_us(now - 2 * SKEW)
    return Rows(name="cs_replay", key=replay.c.digest, kept=2 * SKEW, over=over)


def _key_fetches(url: str) -> Counted:
    # Apart from documents, and good ones don't count: whoever knows a client id can cause these, and would use up
    # what the client itself needs.
    of_host = Key(digest_of(f"keys:{fetchable_host(url)}"), HOST_FACTOR, is_forgiven=False)
    return Counted((of_host,), failures_alone=True)


def _read(assertion: str) -> jws.CompactSignature:
    if len(assertion) > LONGEST:
        raise BadAssertion("The assertion is too long.")
    try:
        return jws.extract_compact(assertion.encode("ascii"), registry=HEADERS)
    except (JoseError, ValueError, RecursionError):
        raise BadAssertion("The assertion is no signed JWT.") from None


def _claims(payload: bytes) -> dict[str, Any]:
    try:
        return read_object(payload)
    except BadDocument:
        raise BadAssertion("The assertion's claims are no JSON object.") from None


def _check_header(header: dict[str, Any], client: Client) -> None:
    allowed = SIGNING_ALGORITHMS if client.signing_algorithm is None else (client.signing_algorithm,)
    if header.get("alg") not in allowed:
        raise BadAssertion(f"The assertion must be signed with {' or '.join(allowed)}.")
    if "crit" in header or "b64" in header:
        raise BadAssertion("The assertion's header asks for something that this server doesn't know.")
    kind = header.get("typ", KINDS[0])
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in KINDS:
        raise BadAssertion("The assertion is a token of another kind.")


def _moment(claims: dict[str, Any], name: str) -> datetime | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LAST_SECOND:
        raise BadAssertion(f"The assertion's {name} is no time.")
    return from_us(int(value * 1_000_000))


def _is_signed_by(signed: jws.CompactSignature, keys: tuple[PublicKey, ...]) -> bool:
    """Tell whether one of `keys` made the signature; a `kid` names exactly one, and without it there must be one."""
    header = signed.headers()
    fitting = [one for one in keys if one.algorithm == header["alg"] and header.get("kid", one.kid) == one.kid]
    if len(fitting) != 1:
        return False
    try:
        return jws.validate_compact(signed, fitting[0].key, registry=HEADERS)
    except JoseError:
        return False
