"""The tables of people, their sessions, clients, grants and tokens. Times in microseconds; secrets as digests."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, String, Text, false

from core.db import db

REGISTERED, LOCAL = "registered", "local"  # kinds of clients
DOCUMENT, ADDED = "document", "added"
PERSON, MACHINE = "person", "machine"  # kinds of operators; a machine has no password and no session

operator = db.Table(
    "cs_operator",
    Column("id", String(40), primary_key=True),
    Column("email", String(254), nullable=False, unique=True),  # lower case
    Column("role", String(16), nullable=False),
    Column("password_hash", Text, nullable=False),
    Column("must_change", Boolean, nullable=False),  # the first password is replaced at the first sign-in
    Column("created_at", BigInteger, nullable=False),
    Column("disabled_at", BigInteger),
    Column("kind", String(8), nullable=False, server_default=PERSON),
)

session = db.Table(
    "cs_session",
    Column("digest", String(64), primary_key=True),
    Column("operator_id", String(40), nullable=False, index=True),
    Column("csrf", String(64), nullable=False),
    Column("remembered", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("signed_in_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
)

login_event = db.Table(
    "cs_login_event",
    Column("id", String(40), primary_key=True),
    Column("key", String(64), nullable=False),  # digest of the e-mail address, or of the network address
    Column("at", BigInteger, nullable=False, index=True),
    Column("succeeded", Boolean, nullable=False),
    Index("ix_cs_login_event_key", "key", "at"),
)

client = db.Table(
    "cs_client",
    Column("id", String(255), primary_key=True),
    Column("kind", String(16), nullable=False),  # registered (DCR) | document (CIMD) | added | local
    Column("name", String(200), nullable=False),
    Column("secret_digest", String(64)),
    Column("auth_method", String(32), nullable=False),  # one of auth/metadata.py
    Column("redirect_uris", Text, nullable=False),  # JSON list
    Column("registration", Text, nullable=False),  # JSON: the metadata as registered, without nulls
    Column("created_at", BigInteger, nullable=False, index=True),
    Column("removed_at", BigInteger),
    Column("changed_at", BigInteger),  # when its document last said something else
    Column("device", Boolean, nullable=False, server_default=false()),  # whether it may use the device grant
)

grant = db.Table(
    "cs_grant",
    Column("id", String(40), primary_key=True),
    Column("operator_id", String(40), nullable=False),
    Column("client_id", String(255), nullable=False, index=True),
    Column("scopes", Text, nullable=False),  # space separated
    Column("resource", Text, nullable=False),
    Column("version", Integer, nullable=False),  # +1 with every change of scopes
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("redirect_host", Text),  # where the answer of its consent went; None when nobody was sent anywhere
    Index("ix_cs_grant_operator", "operator_id", "client_id"),
)

authorization_request = db.Table(
    "cs_authorization_request",
    Column("id", String(40), primary_key=True),
    Column("operator_id", String(40), nullable=False),  # the person who saw the page
    Column("client_id", String(255), nullable=False),
    Column("redirect_uri", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("state", Text),
    Column("code_challenge", String(128), nullable=False),
    Column("resource", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("decision", String(8)),  # allow | deny
    Column("grant_id", String(40)),
)

auth_code = db.Table(
    "cs_auth_code",
    Column("digest", String(64), primary_key=True),
    Column("grant_id", String(40), nullable=False, index=True),
    Column("client_id", String(255), nullable=False),
    Column("redirect_uri", Text, nullable=False),
    Column("code_challenge", String(128), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("used_at", BigInteger),
)

token = db.Table(
    "cs_token",
    Column("digest", String(64), primary_key=True),
    Column("kind", String(8), nullable=False),  # access | refresh
    Column("grant_id", String(40), nullable=False, index=True),
    Column("generation", Integer, nullable=False),  # of its family, which is the grant
    Column("narrowed_to", Text),  # scopes, only when a refresh narrowed them
    Column("issued_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("rotated_at", BigInteger),  # refresh tokens: when the successor was given
    Column("rotated_by", String(64)),  # and the digest of the network address that got it
    Column("revoked_at", BigInteger),
)

fetched = db.Table(
    "cs_fetched",
    Column("url", String(255), primary_key=True),
    Column("body", Text, nullable=False),  # of a document or key set that was found good
    Column("fetched_at", BigInteger, nullable=False),
    Column("fresh_until", BigInteger, nullable=False, index=True),
    Column("retried_at", BigInteger, nullable=False),  # when a fresh one was last fetched again for an unknown key
)

replay = db.Table(
    "cs_replay",
    Column("digest", String(64), primary_key=True),  # of the client and the jti of an assertion that was used
    Column("expires_at", BigInteger, nullable=False, index=True),
)

device = db.Table(
    "cs_device",
    Column("digest", String(64), primary_key=True),  # of the device code
    Column("user_code", String(64), nullable=False, unique=True),  # digest of what the person types
    Column("client_id", String(255), nullable=False),
    Column("scope", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
    Column("interval", Integer, nullable=False),  # seconds between two polls, longer after each that came too soon
    Column("polled_at", BigInteger),
    Column("decision", String(8)),  # allow | deny
    Column("operator_id", String(40)),  # who decided
    Column("grant_id", String(40)),
    Column("used_at", BigInteger),
)

client_event = db.Table(
    "cs_client_event",
    Column("id", String(40), primary_key=True),
    Column("client_id", String(255), nullable=False),
    Column("at", BigInteger, nullable=False, index=True),
    Column("step", String(24), nullable=False),  # auth/events.py
    Column("code", String(64)),  # of the failure; None when the step went well
    Column("sentence", Text, nullable=False),
    Column("operator_id", String(40)),
    Column("grant_id", String(40)),
    Column("reference", String(40)),
    Index("ix_cs_client_event_client", "client_id", "id"),
)
