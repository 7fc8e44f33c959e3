"""Orders: list them, look at one, give money back."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import Row, bindparam, select

from flows.catalogue.money import money
from flows.catalogue.tables import Customer, Order, OrderLine, Product, Refund
from flows.effects import reads, sends, writes
from flows.operation import FlowError, FromPeople, Params, Result, flow
from flows.world import World

OrderNumber = Annotated[int, Field(ge=1, le=2**31 - 1, description="The order's number, e.g. 1042")]
Cents = Annotated[int, Field(ge=1, le=10_000_000, description="Minor units: 4500 is 45.00")]
OrderStatus = Literal["paid", "shipped", "refunded", "cancelled"]


class OrderNotFound(FlowError):
    """No order has this number."""

    code = "order_not_found"
    status = 404
    public = "There is no order with this number. orders_list shows which there are."


class OrderNotRefundable(FlowError):
    """Cancelled, or everything has gone back already."""

    code = "order_not_refundable"
    public = "This order can't be refunded: it is cancelled or fully refunded."


class AmountNeeded(FlowError):
    """After a part has gone back, "the rest" would be a guess about what the person approved."""

    code = "amount_needed"
    public = "A part of this order was refunded before. Say the amount in minor units."


class AmountTooHigh(FlowError):
    """More than what is left."""

    code = "amount_too_high"
    public = "The amount is more than what is left of this order."


class ListOrders(Params):
    """Which orders to list."""

    status: OrderStatus | None = Field(None, description="Only orders in this status")
    customer_id: int | None = Field(None, ge=1, le=2**31 - 1, description="Only orders of this customer")
    limit: int = Field(20, ge=1, le=200, description="How many at most")
    cursor: str | None = Field(None, pattern=r"^o[0-9]{1,10}$", description="`next_cursor` of the page before")


class OrderSummary(Result):
    """One line of the list."""

    number: int
    status: OrderStatus
    customer: Annotated[str, FromPeople()]
    total: int
    refunded: int
    currency: str
    placed_at: str


class OrderPage(Result):
    """A page of orders, newest first."""

    orders: list[OrderSummary]
    next_cursor: str | None = Field(None, description="Ask with this for the next page; absent on the last one")


@flow(
    id="orders.list",
    title="List orders",
    effects=[reads("orders", Order), reads("customers", Customer)],
)
def list_orders(params: ListOrders, world: World) -> OrderPage:
    """List orders, newest first, by status or customer. Not for one order's lines: use orders_get."""
    query = select(Order, Customer.name).join(Customer, Customer.id == Order.customer_id)
    if params.status is not None:
        query = query.where(Order.status == params.status)
    if params.customer_id is not None:
        query = query.where(Order.customer_id == params.customer_id)
    if params.cursor is not None:
        query = query.where(Order.number < int(params.cursor[1:]))
    rows = world.session.execute(query.order_by(Order.number.desc()).limit(params.limit + 1)).all()
    page = [_summary(order, name) for order, name in rows[: params.limit]]
    return OrderPage(orders=page, next_cursor=f"o{page[-1].number}" if len(rows) > params.limit else None)


class GetOrder(Params):
    """Which order."""

    order_id: OrderNumber


class OrderItem(Result):
    """One product of an order."""

    sku: str
    product: str
    quantity: int
    price: int


class OrderDetails(Result):
    """One order, whole."""

    order: OrderSummary
    items: list[OrderItem]
    card_ending: str


# Built once: building a statement takes longer than running it.
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


@flow(
    id="orders.get",
    title="Look at an order",
    effects=[reads("orders", Order, OrderLine), reads("customers", Customer), reads("products", Product)],
    errors=(OrderNotFound,),
)
def get_order(params: GetOrder, world: World) -> OrderDetails:
    """Show one order with its lines, its customer and what was refunded. Not for finding orders: use orders_list."""
    order = world.session.execute(ONE_ORDER, {"number": params.order_id}).one_or_none()
    if order is None:
        raise OrderNotFound
    lines = world.session.execute(ITS_LINES, {"number": params.order_id})
    items = [OrderItem(sku=of.sku, product=of.product, quantity=of.quantity, price=of.price) for of in lines]
    return OrderDetails(order=_summary(order, order.customer), items=items, card_ending=order.card)


class RefundOrder(Params):
    """What to give back, and why."""

    order_id: OrderNumber
    reason: str = Field(min_length=1, max_length=500, description="Why, in words that the customer may read")
    amount: Cents | None = Field(None, description="Minor units; without it the whole order")


class OrderRefunded(Result):
    """What went back."""

    order_id: int
    refund_id: str
    amount: int
    currency: str
    status: OrderStatus


def refund_facts(params: RefundOrder, world: World) -> Mapping[str, object]:
    """Read what the person decides on; raises what the refund itself would raise."""
    order, _ = _order_with_customer(world, params.order_id)
    amount = _refundable_amount(order, params.amount)
    return {"amount": money(amount, order.currency), "number": order.number, "card": order.card}


@flow(
    id="orders.refund",
    title="Refund an order",
    effects=[
        reads("customers", Customer),
        writes("orders", Order),
        writes("refunds", Refund),
        sends("email"),
    ],
    scope="orders:refund",
    asks="Refund {amount} of order {number}, card ending {card}",
    facts=refund_facts,
    amount="amount",
    errors=(OrderNotFound, OrderNotRefundable, AmountNeeded, AmountTooHigh),
)
def refund_order(params: RefundOrder, world: World) -> OrderRefunded:
    """Give money back for an order, whole or in part, and tell the customer by e-mail. Not for cancelling an order."""
    order, customer = _order_with_customer(world, params.order_id)
    amount = _refundable_amount(order, params.amount)
    refund_id = world.new_id("refund")
    world.session.add(
        Refund(
            id=refund_id,
            order_number=order.number,
            amount=amount,
            currency=order.currency,
            reason=params.reason,
            refunded_at=world.now.replace(tzinfo=None),
            refunded_by=world.caller.operator_id,
        )
    )
    order.refunded += amount
    if order.refunded == order.total:
        order.status = "refunded"
    world.send(
        "email",
        to=customer.email,
        subject=f"Your refund of {money(amount, order.currency)} is on its way",
        text=f"Dear {customer.name},\n\nwe have refunded {money(amount, order.currency)} of order {order.number} "
        f"to your card ending {order.card}.\n\nReason: {params.reason}\n",
    )
    return OrderRefunded(
        order_id=order.number, refund_id=refund_id, amount=amount, currency=order.currency, status=_status(order)
    )


def _order_with_customer(world: World, number: int) -> tuple[Order, Customer]:
    found = world.session.execute(
        select(Order, Customer).join(Customer, Customer.id == Order.customer_id).where(Order.number == number)
    ).one_or_none()
    if found is None:
        raise OrderNotFound
    return found[0], found[1]


def _refundable_amount(order: Order, asked: int | None) -> int:
    left = order.total - order.refunded
    if order.status == "cancelled" or left <= 0:
        raise OrderNotRefundable
    if asked is None and order.refunded:
        raise AmountNeeded
    if asked is not None and asked > left:
        raise AmountTooHigh
    return left if asked is None else asked


def _summary(order: Order | Row[*tuple[Any, ...]], customer: str) -> OrderSummary:
    return OrderSummary(
        number=order.number,
        status=_status(order),
        customer=customer,
        total=order.total,
        refunded=order.refunded,
        currency=order.currency,
        placed_at=f"{order.placed_at:%Y-%m-%dT%H:%M:%S}Z",
    )


def _status(order: Order | Row[*tuple[Any, ...]]) -> OrderStatus:
    for known in ("paid", "shipped", "refunded", "cancelled"):
        if order.status == known:
            return known
    raise ValueError(f"order {order.number} has the status {order.status!r}")
