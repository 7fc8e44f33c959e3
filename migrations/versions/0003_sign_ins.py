"""Machines beside people, the device grant, where a consent led to, and what happened to each client."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Integer, String, Text

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ADDED = (
    ("cs_operator", "kind"),
    ("cs_client", "changed_at"),
    ("cs_client", "device"),
    ("cs_grant", "redirect_host"),
    ("cs_token", "rotated_by"),
)


def upgrade() -> None:
    """Add the columns, then both tables; who has an account already is a person."""
    op.add_column("cs_operator", Column("kind", String(8), nullable=False, server_default="person"))
    op.add_column("cs_client", Column("changed_at", BigInteger))
    op.add_column("cs_client", Column("device", Boolean, nullable=False, server_default=sa.false()))
    op.add_column("cs_grant", Column("redirect_host", Text))
    op.add_column("cs_token", Column("rotated_by", String(64)))
    op.create_table(
        "cs_device",
        Column("digest", String(64), primary_key=True),
        Column("user_code", String(64), nullable=False, unique=True),
        Column("client_id", String(255), nullable=False),
        Column("scope", Text, nullable=False),
        Column("resource", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False, index=True),
        Column("interval", Integer, nullable=False),
        Column("polled_at", BigInteger),
        Column("decision", String(8)),
        Column("operator_id", String(40)),
        Column("grant_id", String(40)),
        Column("used_at", BigInteger),
    )
    op.create_table(
        "cs_client_event",
        Column("id", String(40), primary_key=True),
        Column("client_id", String(255), nullable=False),
        Column("at", BigInteger, nullable=False, index=True),
        Column("step", String(24), nullable=False),
        Column("code", String(64)),
        Column("sentence", Text, nullable=False),
        Column("operator_id", String(40)),
        Column("grant_id", String(40)),
        Column("reference", String(40)),
    )
    op.create_index("ix_cs_client_event_client", "cs_client_event", ["client_id", "id"])


def downgrade() -> None:
    """Drop them, with what they hold."""
    op.drop_table("cs_client_event")
    op.drop_table("cs_device")
    for table, column in reversed(ADDED):
        op.drop_column(table, column)
