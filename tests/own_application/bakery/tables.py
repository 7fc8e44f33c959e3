# bakery/tables.py
from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """The bakery's own metadata."""


class Order(Base):
    """A cake that somebody paid for; money is whole cents."""

    __tablename__ = "bakery_order"

    number: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str] = mapped_column(String(254))
    cake: Mapped[str] = mapped_column(String(80))
    paid: Mapped[int]
    paid_back: Mapped[int] = mapped_column(default=0)
    payment: Mapped[str] = mapped_column(String(40))  # the payment service's own name of what was paid
    is_ready: Mapped[bool] = mapped_column(default=False)


class Refund(Base):
    """Money that goes back; `reference` is None until the payment service has answered."""

    __tablename__ = "bakery_refund"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    order_number: Mapped[int] = mapped_column(ForeignKey("bakery_order.number"))
    cents: Mapped[int]
    reference: Mapped[str | None] = mapped_column(String(40))
