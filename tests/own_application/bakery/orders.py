# bakery/orders.py
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from bakery.tables import Order, Refund


def open_orders(session: Session, limit: int) -> Sequence[Order]:
    """Give the orders that nobody has been told of yet."""
    return session.scalars(select(Order).where(Order.is_ready.is_(False)).order_by(Order.number).limit(limit)).all()


def begin_refund(session: Session, order: Order, refund_id: str, cents: int) -> None:
    """Take the money off the order, so that nobody else gives it back a second time."""
    order.paid_back += cents
    session.add(Refund(id=refund_id, order_number=order.number, cents=cents))


def end_refund(session: Session, refund_id: str, reference: str | None) -> None:
    """Note what the payment service said; None: it gave nothing back, and the order has its money again."""
    refund = session.get_one(Refund, refund_id)
    if reference is None:
        session.get_one(Order, refund.order_number).paid_back -= refund.cents
        session.delete(refund)
    else:
        refund.reference = reference
