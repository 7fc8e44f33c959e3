"""Orders and refunds."""

from alembic import op
from sqlalchemy import Boolean, Column, ForeignKey, Integer, String

revision = "0001"  # Countersign has a revision of this name too, in a version table of its own
down_revision = None


def upgrade() -> None:
    """Make the bakery's tables."""
    op.create_table(
        "bakery_order",
        Column("number", Integer, primary_key=True),
        Column("email", String(254), nullable=False),
        Column("cake", String(80), nullable=False),
        Column("paid", Integer, nullable=False),
        Column("paid_back", Integer, nullable=False),
        Column("payment", String(40), nullable=False),
        Column("is_ready", Boolean, nullable=False),
    )
    op.create_table(
        "bakery_refund",
        Column("id", String(40), primary_key=True),
        Column("order_number", Integer, ForeignKey("bakery_order.number"), nullable=False),
        Column("cents", Integer, nullable=False),
        Column("reference", String(40)),
    )


def downgrade() -> None:
    """Drop them, with what they hold."""
    op.drop_table("bakery_refund")
    op.drop_table("bakery_order")
