# bakery/flows.py
from typing import Annotated, Literal

from pydantic import Field

from bakery import orders, payments
from bakery.tables import Order, Refund
from flows.effects import calls, deletes, reads, sends, writes
from flows.operation import FlowError, FromPeople, Params, Result, flow
from flows.world import World

Number = Annotated[int, Field(ge=1, le=2**31 - 1, description="The order's number, e.g. 7")]
Cents = Annotated[int, Field(ge=1, le=1_000_000, description="Whole cents: 2850 is 28.50 EUR")]


class OrderNotFound(FlowError):
    """No order has this number."""

    code = "order_not_found"
    public = "There is no order with this number. orders_open lists those that wait."


class TooMuch(FlowError):
    """More than what is left of the payment."""

    code = "too_much"
    public = "That is more than what is left of what was paid."


class OpenOrders(Params):
    limit: int = Field(20, ge=1, le=200, description="How many at most")


class OpenOrder(Result):
    number: int
    cake: Annotated[str, FromPeople()]
    cents_left: int


class OrderList(Result):
    orders: list[OpenOrder]


@flow(id="orders.open", title="List open orders", effects=[reads("orders", Order)])
def open_orders(params: OpenOrders, world: World) -> OrderList:
    """List the orders that nobody has been told of yet, oldest first. Not for finished ones."""
    found = orders.open_orders(world.session, params.limit)
    return OrderList(
        orders=[OpenOrder(number=one.number, cake=one.cake, cents_left=one.paid - one.paid_back) for one in found]
    )


class RefundOrder(Params):
    number: Number
    cents: Cents


class OrderRefunded(Result):
    outcome: Literal["paid_back", "declined"]
    refund_id: str


def refund_facts(params: RefundOrder, world: World) -> dict[str, object]:
    order = _refundable(world, params)
    return {"euros": f"{params.cents / 100:.2f}", "cake": order.cake, "email": order.email}


@flow(
    id="orders.refund",
    title="Refund an order",
    effects=[
        writes("orders", Order),
        writes("refunds", Refund),
        deletes("refunds", Refund),
        calls("payments", reconcile="Search the payment service's requests for the key."),
    ],
    scope="orders:refund",
    asks="Pay back {euros} EUR for {cake} to {email}",
    facts=refund_facts,
    amount="cents",
    errors=[OrderNotFound, TooMuch],
)
def refund_order(params: RefundOrder, world: World) -> OrderRefunded:
    """Give money back for an order, whole or in part. Not for cancelling the cake: it is baked all the same."""
    order = _refundable(world, params)
    payment, refund_id = order.payment, world.new_id("rf")
    orders.begin_refund(world.session, order, refund_id, params.cents)
    reference = world.call("payments", lambda key: payments.pay_back(key, payment, params.cents))
    orders.end_refund(world.session, refund_id, reference)
    return OrderRefunded(outcome="declined" if reference is None else "paid_back", refund_id=refund_id)


class OrderReady(Params):
    number: Number


class CustomerTold(Result):
    number: int


@flow(
    id="orders.ready",
    title="Tell a customer that their cake is ready",
    effects=[writes("orders", Order), sends("email")],
    asks="Write to the customer of order {number} that it is ready",
    errors=[OrderNotFound],
)
def order_ready(params: OrderReady, world: World) -> CustomerTold:
    """Mark an order as ready and tell its customer by e-mail. Not for orders that are late."""
    order = _order(world, params.number)
    order.is_ready = True
    world.send("email", to=order.email, subject="Your cake is ready", text=f"Come and get your {order.cake}.\n")
    return CustomerTold(number=order.number)


def _order(world: World, number: int) -> Order:
    order = world.session.get(Order, number)
    if order is None:
        raise OrderNotFound
    return order


def _refundable(world: World, params: RefundOrder) -> Order:
    order = _order(world, params.number)
    if params.cents > order.paid - order.paid_back:
        raise TooMuch
    return order
