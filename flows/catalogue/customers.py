"""Customers: find one."""

from typing import Annotated

from pydantic import Field
from sqlalchemy import or_, select

from flows.catalogue.tables import Customer
from flows.effects import reads
from flows.operation import FromPeople, Params, Result, Sensitive, flow
from flows.world import World


class SearchCustomers(Params):
    """Whom to look for."""

    query: str = Field(min_length=2, max_length=80, description="A part of the name or of the e-mail address")
    limit: int = Field(20, ge=1, le=200, description="How many at most")


class FoundCustomer(Result):
    """One customer."""

    id: int
    name: Annotated[str, FromPeople()]
    email: Annotated[str, Sensitive()]
    city: Annotated[str, FromPeople()]


class FoundCustomers(Result):
    """Customers by name."""

    customers: list[FoundCustomer]


@flow(id="customers.search", title="Find customers", effects=[reads("customers", Customer)])
def search_customers(params: SearchCustomers, world: World) -> FoundCustomers:
    """Find customers by a part of their name or e-mail address. Not for their orders: use orders_list."""
    pattern = f"%{_escaped(params.query)}%"
    rows = world.session.scalars(
        select(Customer)
        .where(or_(Customer.name.ilike(pattern, escape="\\"), Customer.email.ilike(pattern, escape="\\")))
        .order_by(Customer.name, Customer.id)
        .limit(params.limit)
    )
    return FoundCustomers(
        customers=[FoundCustomer(id=row.id, name=row.name, email=row.email, city=row.city) for row in rows]
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
