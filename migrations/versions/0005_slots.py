"""How many runs of a flow there are at once."""

from alembic import op
from sqlalchemy import BigInteger, Column, String

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "cs_slot",
        Column("run_id", String(40), primary_key=True),
        Column("flow_id", String(80), nullable=False, index=True),
        Column("until", BigInteger, nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("cs_slot")
