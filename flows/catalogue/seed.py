"""The demo shop's rows: the same few hundred on every machine, so that documentation and tests can name them."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, insert, select

from flows.catalogue.tables import Customer, Order, OrderLine, Product

FIRST_ORDER = 1001
ORDERS = 300
CUSTOMERS = 80
OPENED = datetime(2026, 1, 5, 9, 0)  # noqa: DTZ001 - the column is UTC by its comment

FIRST_NAMES = ("Ada", "Bruno", "Chiara", "Daan", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jonas")
LAST_NAMES = ("Adler", "Bianchi", "Costa", "Dubois", "Eriksson", "Fischer", "García", "Horvat")
CITIES = ("Berlin", "Lisbon", "Lyon", "Milan", "Porto", "Vienna", "Warsaw")
PRODUCTS = (
    ("KET-STEEL", "Kettle, steel", 4500, 42),
    ("CUP-BLUE", "Cup, blue", 950, 320),
    ("CUP-WHITE", "Cup, white", 950, 280),
    ("TEA-GREEN", "Green tea, 250 g", 1290, 150),
    ("TEA-BLACK", "Black tea, 250 g", 1190, 180),
    ("POT-IRON", "Tea pot, cast iron", 6900, 18),
    ("TIN-SMALL", "Tea tin, small", 640, 210),
    ("TRAY-OAK", "Tray, oak", 3400, 35),
    ("SPOON-SET", "Spoons, set of six", 2250, 60),
    ("FILTER-100", "Paper filters, 100", 480, 500),
)
STATUSES = ("paid", "shipped", "shipped", "paid", "shipped", "cancelled")


def load_shop(connection: Connection) -> bool:
    """Fill an empty shop and say True; leave one that has customers as it is and say False."""
    if connection.scalar(select(func.count()).select_from(Customer)):
        return False
    lines = [_lines(number) for number in _numbers()]
    connection.execute(insert(Customer), [_customer(index) for index in range(CUSTOMERS)])
    connection.execute(insert(Product), [_product(*fields) for fields in PRODUCTS])
    connection.execute(insert(Order), [_order(number, of) for number, of in zip(_numbers(), lines, strict=True)])
    connection.execute(insert(OrderLine), [line for of in lines for line in of])
    return True


def _numbers() -> range:
    return range(FIRST_ORDER, FIRST_ORDER + ORDERS)


def _customer(index: int) -> dict[str, Any]:
    first, last = FIRST_NAMES[index % len(FIRST_NAMES)], LAST_NAMES[index // len(FIRST_NAMES)]
    address = f"{first}.{last}@customers.example".lower().replace("í", "i")
    return {"id": index + 1, "name": f"{first} {last}", "email": address, "city": CITIES[index * 3 % len(CITIES)]}


def _product(sku: str, name: str, price: int, stock: int) -> dict[str, Any]:
    return {"sku": sku, "name": name, "price": price, "currency": "EUR", "stock": stock}


def _lines(number: int) -> list[dict[str, Any]]:
    if number == 1042:  # the order that the documentation refunds: one kettle
        return [_line(number, 0, 0, 1)]
    return [
        _line(number, place, (number * 7 + place * 3) % len(PRODUCTS), 1 + number % 3)
        for place in range(1 + number % 3)
    ]


def _line(number: int, position: int, product: int, quantity: int) -> dict[str, Any]:
    sku, _, price, _ = PRODUCTS[product]
    return {"order_number": number, "position": position, "sku": sku, "quantity": quantity, "price": price}


def _order(number: int, lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "number": number,
        "customer_id": number * 11 % CUSTOMERS + 1,
        "status": "paid" if number == 1042 else STATUSES[number % len(STATUSES)],
        "total": sum(line["quantity"] * line["price"] for line in lines),
        "refunded": 0,
        "currency": "EUR",
        "card": "4417" if number == 1042 else f"{number * 37 % 10000:04d}",
        "placed_at": OPENED + timedelta(hours=(number - FIRST_ORDER) * 11),
    }
