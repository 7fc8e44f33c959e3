"""The tables of runs: what ran, its steps, who may repeat it, and what still has to leave. Times in microseconds."""

from sqlalchemy import BigInteger, Column, Index, Integer, String, Text, UniqueConstraint

from core.db import db

run = db.Table(
    "cs_run",
    Column("id", String(40), primary_key=True),
    Column("flow_id", String(80), nullable=False),
    Column("flow_version", Integer, nullable=False),
    Column("kind", String(8), nullable=False),  # read | write
    Column("status", String(16), nullable=False),  # running | done | failed | refused | interrupted | unknown
    Column("surface", String(16), nullable=False),
    Column("operator_id", String(40), nullable=False),
    Column("client_id", String(255), nullable=False),
    Column("grant_id", String(40), nullable=False),
    Column("confirmation_id", String(40)),
    Column("request_id", String(128)),
    Column("arguments", Text, nullable=False),  # JSON; sensitive values as digests, secret ones masked
    Column("result", Text),  # JSON, only of writes, and only when no field of it is sensitive or secret
    Column("code", String(64)),  # of the refusal or error
    Column("message", Text),  # its one public sentence
    Column("reference", String(40)),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("lease_until", BigInteger),  # writes: when it is over, the reaper writes `interrupted`
    Index("ix_cs_run_operator", "operator_id", "id"),
    Index("ix_cs_run_flow", "flow_id", "id"),
    Index("ix_cs_run_grant", "grant_id", "id"),
    Index("ix_cs_run_status", "status", "lease_until"),
)

step = db.Table(
    "cs_step",
    Column("run_id", String(40), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("verb", String(8), nullable=False),
    Column("target", String(80), nullable=False),
    Column("detail", Text, nullable=False),  # e.g. "2 rows of shop_order"; never values
    Column("at", BigInteger, nullable=False),
)

request_key = db.Table(
    "cs_request_key",
    Column("operator_id", String(40), primary_key=True),
    Column("client_id", String(255), primary_key=True),
    Column("flow_id", String(80), primary_key=True),
    Column("request_id", String(128), primary_key=True),
    Column("plan", String(64), nullable=False),  # the argument digest
    Column("run_id", String(40), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("run_id", name="uq_cs_request_key_run"),
)

outbox = db.Table(
    "cs_outbox",
    Column("id", String(40), primary_key=True),  # also the Message-ID, so that a second delivery is recognised
    Column("run_id", String(40), nullable=False, index=True),
    Column("target", String(80), nullable=False),  # "email"
    Column("payload", Text, nullable=False),  # JSON: to, subject, text
    Column("status", String(16), nullable=False),  # waiting | sent | failed
    Column("attempts", Integer, nullable=False),
    Column("due_at", BigInteger, nullable=False),  # claimed by moving it ahead
    Column("created_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("problem", Text),
    Index("ix_cs_outbox_due", "status", "due_at"),
)

slot = db.Table(
    "cs_slot",
    Column("run_id", String(40), primary_key=True),
    Column("flow_id", String(80), nullable=False, index=True),
    Column("until", BigInteger, nullable=False),  # when it is free again though nobody gave it back
)
