"""The tables of decisions: what waits for a person, its tokens, and what happened. Times in microseconds."""

from sqlalchemy import BigInteger, Column, Index, Integer, String, Text

from core.db import db

confirmation = db.Table(
    "cs_confirmation",
    Column("id", String(40), primary_key=True),
    Column("open_key", String(64), unique=True),  # digest of the call's identity while pending or approved, else NULL
    Column("state", String(16), nullable=False),  # pending | approved | denied | spent | expired
    Column("rule", String(16), nullable=False),  # human | client
    Column("operator_id", String(40), nullable=False),
    Column("client_id", String(255), nullable=False),
    Column("grant_id", String(40), nullable=False),
    Column("flow_id", String(80), nullable=False),
    Column("flow_version", Integer, nullable=False),
    Column("digest", String(64), nullable=False),  # of the validated arguments (design D4)
    Column("arguments", Text),  # canonical JSON, erased when the confirmation has ended
    Column("summary", Text, nullable=False),  # the `asks` sentence, filled by the server
    Column("reason", Text),  # the agent's words
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("decided_at", BigInteger),
    Column("decided_by", String(40)),  # operator id, or NULL when rule `client` decided
    Column("approved_at", BigInteger),
    Column("note", Text),
    Column("used_at", BigInteger),
    Column("run_id", String(40)),
    Index("ix_cs_confirmation_operator", "operator_id", "state", "id"),
    Index("ix_cs_confirmation_grant", "grant_id", "flow_id", "digest"),
)

confirm_token = db.Table(
    "cs_confirm_token",
    Column("digest", String(64), primary_key=True),
    Column("confirmation_id", String(40), nullable=False, index=True),
    Column("created_at", BigInteger, nullable=False),
)

audit = db.Table(
    "cs_audit",
    Column("id", String(40), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("event", String(48), nullable=False),  # call.done, call.refused, confirmation.approved, grant.made, …
    Column("surface", String(16), nullable=False),
    Column("operator_id", String(40)),
    Column("client_id", String(255)),
    Column("grant_id", String(40)),
    Column("flow_id", String(80)),
    Column("run_id", String(40)),
    Column("confirmation_id", String(40)),
    Column("code", String(64)),
    Column("detail", Text),  # JSON, never a secret
    Column("reference", String(40)),
    Index("ix_cs_audit_operator", "operator_id", "id"),
)

cancellation = db.Table(
    "cs_cancellation",
    Column("digest", String(64), primary_key=True),  # of grant, session and id of the call that isn't wanted any more
    Column("at", BigInteger, nullable=False, index=True),
)
