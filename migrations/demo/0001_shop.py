"""The demo shop's tables; a branch of its own, so that an application with other flows never gets them."""

from alembic import op
from sqlalchemy import Column, DateTime, ForeignKey, Index, Integer, String, Text

revision = "demo0001"
down_revision = None
branch_labels = ("demo",)
depends_on = None

TABLES = ("shop_customer", "shop_product", "shop_order", "shop_order_line", "shop_refund")


def upgrade() -> None:
    """Make the shop's five tables; their rows are loaded by `flows/catalogue/seed.py`."""
    op.create_table(
        "shop_customer",
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("name", String(120), nullable=False, index=True),
        Column("email", String(254), nullable=False, unique=True),
        Column("city", String(80), nullable=False),
    )
    op.create_table(
        "shop_product",
        Column("sku", String(20), primary_key=True),
        Column("name", String(120), nullable=False),
        Column("price", Integer, nullable=False),
        Column("currency", String(3), nullable=False),
        Column("stock", Integer, nullable=False),
    )
    _create_orders()


def _create_orders() -> None:
    op.create_table(
        "shop_order",
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("customer_id", Integer, ForeignKey("shop_customer.id"), nullable=False),
        Column("status", String(16), nullable=False),
        Column("total", Integer, nullable=False),
        Column("refunded", Integer, nullable=False),
        Column("currency", String(3), nullable=False),
        Column("card", String(4), nullable=False),
        Column("placed_at", DateTime, nullable=False),
        Index("ix_shop_order_customer", "customer_id", "number"),
        Index("ix_shop_order_status", "status", "number"),
        Index("ix_shop_order_placed", "placed_at"),
    )
    op.create_table(
        "shop_order_line",
        Column("order_number", Integer, ForeignKey("shop_order.number"), primary_key=True),
        Column("position", Integer, primary_key=True),
        Column("sku", String(20), ForeignKey("shop_product.sku"), nullable=False),
        Column("quantity", Integer, nullable=False),
        Column("price", Integer, nullable=False),
    )
    op.create_table(
        "shop_refund",
        Column("id", String(40), primary_key=True),
        Column("order_number", Integer, ForeignKey("shop_order.number"), nullable=False, index=True),
        Column("amount", Integer, nullable=False),
        Column("currency", String(3), nullable=False),
        Column("reason", Text, nullable=False),
        Column("refunded_at", DateTime, nullable=False),
        Column("refunded_by", String(40), nullable=False),
    )


def downgrade() -> None:
    """Drop them all, with what they hold."""
    for name in reversed(TABLES):
        op.drop_table(name)
