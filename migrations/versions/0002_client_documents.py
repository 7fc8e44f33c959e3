"""What was fetched of clients' documents and key sets, and the assertions that were used up."""

from alembic import op
from sqlalchemy import BigInteger, Column, String, Text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "cs_fetched",
        Column("url", String(255), primary_key=True),
        Column("body", Text, nullable=False),
        Column("fetched_at", BigInteger, nullable=False),
        Column("fresh_until", BigInteger, nullable=False, index=True),
        Column("retried_at", BigInteger, nullable=False),
    )
    op.create_table(
        "cs_replay",
        Column("digest", String(64), primary_key=True),
        Column("expires_at", BigInteger, nullable=False, index=True),
    )


def downgrade() -> None:
    """Drop both, with what they hold."""
    op.drop_table("cs_replay")
    op.drop_table("cs_fetched")
