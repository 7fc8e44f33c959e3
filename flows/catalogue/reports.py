"""Reports: what was sold."""

from datetime import date, datetime, timedelta
from typing import Annotated

from pydantic import Field
from sqlalchemy import func, select

from flows.catalogue.tables import Order, OrderLine, Product
from flows.effects import reads
from flows.operation import FlowError, Params, Result, flow
from flows.world import World

Day = Annotated[date, Field(description="A day in UTC, e.g. 2026-03-01")]


class PeriodReversed(FlowError):
    """The last day lies before the first."""

    code = "period_reversed"
    status = 400
    public = "`last_day` lies before `first_day`."


class SalesPeriod(Params):
    """Which days, both included."""

    first_day: Day
    last_day: Day


class SoldProduct(Result):
    """One product's sales."""

    sku: str
    product: str
    pieces: int
    amount: int


class SalesReport(Result):
    """Sales of the period in minor units, cancelled orders left out, the best-selling product first."""

    orders: int
    amount: int
    refunded: int
    currency: str
    products: list[SoldProduct]


@flow(
    id="reports.sales",
    title="Sales report",
    effects=[reads("orders", Order, OrderLine), reads("products", Product)],
    errors=(PeriodReversed,),
)
def sales_report(params: SalesPeriod, world: World) -> SalesReport:
    """Add up what was sold between two days, by product. Not for single orders: use orders_list."""
    if params.last_day < params.first_day:
        raise PeriodReversed
    within = (
        Order.status != "cancelled",
        Order.placed_at >= datetime.combine(params.first_day, datetime.min.time()),
        Order.placed_at < datetime.combine(params.last_day, datetime.min.time()) + timedelta(days=1),
    )
    totals = select(func.count(), func.coalesce(func.sum(Order.total), 0), func.coalesce(func.sum(Order.refunded), 0))
    orders, amount, refunded = world.session.execute(totals.select_from(Order).where(*within)).one()
    world.progress(1, 2, "The orders are added up; now their products.")
    pieces, sold = func.sum(OrderLine.quantity), func.sum(OrderLine.quantity * OrderLine.price)
    rows = world.session.execute(
        select(Product.sku, Product.name, pieces, sold)
        .join(OrderLine, OrderLine.sku == Product.sku)
        .join(Order, Order.number == OrderLine.order_number)
        .where(*within)
        .group_by(Product.sku, Product.name)
        .order_by(sold.desc(), Product.sku)
    )
    return SalesReport(
        orders=orders,
        amount=int(amount),
        refunded=int(refunded),
        currency="EUR",
        products=[SoldProduct(sku=sku, product=name, pieces=int(n), amount=int(total)) for sku, name, n, total in rows],
    )
