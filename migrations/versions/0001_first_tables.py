"""The first tables: people, clients, grants and tokens; decisions and audit; runs and what they send."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, String, Text, UniqueConstraint

revision = "0001"
down_revision = None
branch_labels = ("main",)
depends_on = None

TABLES = (
    "cs_operator",
    "cs_session",
    "cs_login_event",
    "cs_client",
    "cs_grant",
    "cs_authorization_request",
    "cs_auth_code",
    "cs_token",
    "cs_confirmation",
    "cs_confirm_token",
    "cs_audit",
    "cs_run",
    "cs_step",
    "cs_request_key",
    "cs_outbox",
)


def upgrade() -> None:
    """Make every `cs_` table of the first release."""
    _create_auth()
    _create_policy()
    _create_flows()


def downgrade() -> None:
    """Drop them all, with what they hold."""
    for name in reversed(TABLES):
        op.drop_table(name)


def _create_auth() -> None:
    op.create_table(
        "cs_operator",
        Column("id", String(40), primary_key=True),
        Column("email", String(254), nullable=False, unique=True),
        Column("role", String(16), nullable=False),
        Column("password_hash", Text, nullable=False),
        Column("must_change", Boolean, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("disabled_at", BigInteger),
    )
    op.create_table(
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
    op.create_table(
        "cs_login_event",
        Column("id", String(40), primary_key=True),
        Column("key", String(64), nullable=False),
        Column("at", BigInteger, nullable=False, index=True),
        Column("succeeded", Boolean, nullable=False),
        Index("ix_cs_login_event_key", "key", "at"),
    )
    op.create_table(
        "cs_client",
        Column("id", String(255), primary_key=True),
        Column("kind", String(16), nullable=False),
        Column("name", String(200), nullable=False),
        Column("secret_digest", String(64)),
        Column("auth_method", String(32), nullable=False),
        Column("redirect_uris", Text, nullable=False),
        Column("registration", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False, index=True),
        Column("removed_at", BigInteger),
    )
    op.create_table(
        "cs_grant",
        Column("id", String(40), primary_key=True),
        Column("operator_id", String(40), nullable=False),
        Column("client_id", String(255), nullable=False, index=True),
        Column("scopes", Text, nullable=False),
        Column("resource", Text, nullable=False),
        Column("version", Integer, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger),
        Column("revoked_at", BigInteger),
        Index("ix_cs_grant_operator", "operator_id", "client_id"),
    )
    op.create_table(
        "cs_authorization_request",
        Column("id", String(40), primary_key=True),
        Column("operator_id", String(40), nullable=False),
        Column("client_id", String(255), nullable=False),
        Column("redirect_uri", Text, nullable=False),
        Column("scope", Text, nullable=False),
        Column("state", Text),
        Column("code_challenge", String(128), nullable=False),
        Column("resource", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False, index=True),
        Column("decision", String(8)),
        Column("grant_id", String(40)),
    )
    op.create_table(
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
    op.create_table(
        "cs_token",
        Column("digest", String(64), primary_key=True),
        Column("kind", String(8), nullable=False),
        Column("grant_id", String(40), nullable=False, index=True),
        Column("generation", Integer, nullable=False),
        Column("narrowed_to", Text),
        Column("issued_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
        Column("rotated_at", BigInteger),
        Column("revoked_at", BigInteger),
    )


def _create_policy() -> None:
    op.create_table(
        "cs_confirmation",
        Column("id", String(40), primary_key=True),
        Column("open_key", String(64), unique=True),
        Column("state", String(16), nullable=False),
        Column("rule", String(16), nullable=False),
        Column("operator_id", String(40), nullable=False),
        Column("client_id", String(255), nullable=False),
        Column("grant_id", String(40), nullable=False),
        Column("flow_id", String(80), nullable=False),
        Column("flow_version", Integer, nullable=False),
        Column("digest", String(64), nullable=False),
        Column("arguments", Text),
        Column("summary", Text, nullable=False),
        Column("reason", Text),
        Column("created_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
        Column("decided_at", BigInteger),
        Column("decided_by", String(40)),
        Column("approved_at", BigInteger),
        Column("note", Text),
        Column("used_at", BigInteger),
        Column("run_id", String(40)),
        Index("ix_cs_confirmation_operator", "operator_id", "state", "id"),
        Index("ix_cs_confirmation_grant", "grant_id", "flow_id", "digest"),
    )
    op.create_table(
        "cs_confirm_token",
        Column("digest", String(64), primary_key=True),
        Column("confirmation_id", String(40), nullable=False, index=True),
        Column("created_at", BigInteger, nullable=False),
    )
    op.create_table(
        "cs_audit",
        Column("id", String(40), primary_key=True),
        Column("at", BigInteger, nullable=False),
        Column("event", String(48), nullable=False),
        Column("surface", String(16), nullable=False),
        Column("operator_id", String(40)),
        Column("client_id", String(255)),
        Column("grant_id", String(40)),
        Column("flow_id", String(80)),
        Column("run_id", String(40)),
        Column("confirmation_id", String(40)),
        Column("code", String(64)),
        Column("detail", Text),
        Column("reference", String(40)),
        Index("ix_cs_audit_operator", "operator_id", "id"),
    )


def _create_flows() -> None:
    op.create_table(
        "cs_run",
        Column("id", String(40), primary_key=True),
        Column("flow_id", String(80), nullable=False),
        Column("flow_version", Integer, nullable=False),
        Column("kind", String(8), nullable=False),
        Column("status", String(16), nullable=False),
        Column("surface", String(16), nullable=False),
        Column("operator_id", String(40), nullable=False),
        Column("client_id", String(255), nullable=False),
        Column("grant_id", String(40), nullable=False),
        Column("confirmation_id", String(40)),
        Column("request_id", String(128)),
        Column("arguments", Text, nullable=False),
        Column("result", Text),
        Column("code", String(64)),
        Column("message", Text),
        Column("reference", String(40)),
        Column("started_at", BigInteger, nullable=False),
        Column("ended_at", BigInteger),
        Column("lease_until", BigInteger),
        Index("ix_cs_run_operator", "operator_id", "id"),
        Index("ix_cs_run_flow", "flow_id", "id"),
        Index("ix_cs_run_grant", "grant_id", "id"),
        Index("ix_cs_run_status", "status", "lease_until"),
    )
    op.create_table(
        "cs_step",
        Column("run_id", String(40), primary_key=True),
        Column("position", Integer, primary_key=True),
        Column("verb", String(8), nullable=False),
        Column("target", String(80), nullable=False),
        Column("detail", Text, nullable=False),
        Column("at", BigInteger, nullable=False),
    )
    op.create_table(
        "cs_request_key",
        Column("operator_id", String(40), primary_key=True),
        Column("client_id", String(255), primary_key=True),
        Column("flow_id", String(80), primary_key=True),
        Column("request_id", String(128), primary_key=True),
        Column("plan", String(64), nullable=False),
        Column("run_id", String(40), nullable=False),
        Column("created_at", BigInteger, nullable=False),
        UniqueConstraint("run_id", name="uq_cs_request_key_run"),
    )
    op.create_table(
        "cs_outbox",
        Column("id", String(40), primary_key=True),
        Column("run_id", String(40), nullable=False, index=True),
        Column("target", String(80), nullable=False),
        Column("payload", Text, nullable=False),
        Column("status", String(16), nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("due_at", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("ended_at", BigInteger),
        Column("problem", Text),
        Index("ix_cs_outbox_due", "status", "due_at"),
    )
