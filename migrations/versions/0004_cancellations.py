"""Calls that their clients took back while another worker was at them."""

from alembic import op
from sqlalchemy import BigInteger, Column, String

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "cs_cancellation",
        Column("digest", String(64), primary_key=True),
        Column("at", BigInteger, nullable=False, index=True),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("cs_cancellation")
