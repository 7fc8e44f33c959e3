"""The demo shop's tables: customers, products, orders with lines, refunds. Money is integer minor units."""

from datetime import datetime

from sqlalchemy import DateTime, ForeignKey, Index, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from core.db import db


class Base(DeclarativeBase):
    """Maps the shop on the metadata of the process."""

    metadata = db.metadata


class Customer(Base):
    """A person who buys."""

    __tablename__ = "shop_customer"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(120), index=True)
    email: Mapped[str] = mapped_column(String(254), unique=True)
    city: Mapped[str] = mapped_column(String(80))


class Product(Base):
    """A thing on the shelf."""

    __tablename__ = "shop_product"

    sku: Mapped[str] = mapped_column(String(20), primary_key=True)
    name: Mapped[str] = mapped_column(String(120))
    price: Mapped[int]
    currency: Mapped[str] = mapped_column(String(3))
    stock: Mapped[int]


class Order(Base):
    """What somebody bought; `status` is paid, shipped, refunded or cancelled."""

    __tablename__ = "shop_order"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    customer_id: Mapped[int] = mapped_column(ForeignKey("shop_customer.id"))
    status: Mapped[str] = mapped_column(String(16))
    total: Mapped[int]
    refunded: Mapped[int]
    currency: Mapped[str] = mapped_column(String(3))
    card: Mapped[str] = mapped_column(String(4))
    placed_at: Mapped[datetime] = mapped_column(DateTime)  # UTC

    __table_args__ = (
        Index("ix_shop_order_customer", "customer_id", "number"),
        Index("ix_shop_order_status", "status", "number"),
        Index("ix_shop_order_placed", "placed_at"),
    )


class OrderLine(Base):
    """One product of an order, at the price of that day."""

    __tablename__ = "shop_order_line"

    order_number: Mapped[int] = mapped_column(ForeignKey("shop_order.number"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    sku: Mapped[str] = mapped_column(ForeignKey("shop_product.sku"))
    quantity: Mapped[int]
    price: Mapped[int]


class Refund(Base):
    """Money that went back."""

    __tablename__ = "shop_refund"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    order_number: Mapped[int] = mapped_column(ForeignKey("shop_order.number"), index=True)
    amount: Mapped[int]
    currency: Mapped[str] = mapped_column(String(3))
    reason: Mapped[str] = mapped_column(Text)
    refunded_at: Mapped[datetime] = mapped_column(DateTime)  # UTC
    refunded_by: Mapped[str] = mapped_column(String(40))  # operator id
