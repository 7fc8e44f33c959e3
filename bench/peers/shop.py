"""The job, as an application without Countersign does it: the same two SELECTs as the flow `orders.get`."""

import os
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, bindparam, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "shop_customer"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    email: Mapped[str]
    city: Mapped[str]


class Product(Base):
    __tablename__ = "shop_product"

    sku: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]


class Order(Base):
    __tablename__ = "shop_order"

    number: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("shop_customer.id"))
    status: Mapped[str]
    total: Mapped[int]
    refunded: Mapped[int]
    currency: Mapped[str]
    card: Mapped[str]
    placed_at: Mapped[datetime]


class OrderLine(Base):
    __tablename__ = "shop_order_line"

    order_number: Mapped[int] = mapped_column(ForeignKey("shop_order.number"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    sku: Mapped[str] = mapped_column(ForeignKey("shop_product.sku"))
    quantity: Mapped[int]
    price: Mapped[int]


engine = create_engine(os.environ["BENCH_DATABASE_URL"], isolation_level="AUTOCOMMIT", pool_size=16, pool_use_lifo=True)


ONE_ORDER = (
    select(
        Order.number,
        Order.status,
        Order.total,
        Order.refunded,
        Order.currency,
        Order.card,
        Order.placed_at,
        Customer.name.label("customer"),
    )
    .join(Customer, Customer.id == Order.customer_id)
    .where(Order.number == bindparam("number"))
)
ITS_LINES = (
    select(OrderLine.sku, Product.name.label("product"), OrderLine.quantity, OrderLine.price)
    .join(Product, Product.sku == OrderLine.sku)
    .where(OrderLine.order_number == bindparam("number"))
    .order_by(OrderLine.position)
)


def get_order(order_id: int) -> dict[str, Any]:
    with Session(engine) as session:
        order = session.execute(ONE_ORDER, {"number": order_id}).one()
        lines = session.execute(ITS_LINES, {"number": order_id})
        return {
            "order": {
                "number": order.number,
                "status": order.status,
                "customer": order.customer,
                "total": order.total,
                "refunded": order.refunded,
                "currency": order.currency,
                "placed_at": f"{order.placed_at:%Y-%m-%dT%H:%M:%S}Z",
            },
            "items": [
                {"sku": line.sku, "product": line.product, "quantity": line.quantity, "price": line.price}
                for line in lines
            ],
            "card_ending": order.card,
        }
