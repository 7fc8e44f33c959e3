"""Stock: correct what is on the shelf."""

from collections.abc import Mapping

from pydantic import Field
from sqlalchemy import select

from flows.catalogue.tables import Product
from flows.effects import writes
from flows.operation import FlowError, Params, Result, Rule, flow
from flows.world import World


class ProductNotFound(FlowError):
    """No product has this stock-keeping unit."""

    code = "product_not_found"
    status = 404
    public = "There is no product with this SKU."


class StockTooLow(FlowError):
    """The shelf can't hold less than nothing."""

    code = "stock_too_low"
    public = "There is less on the shelf than this would take away."


class AdjustStock(Params):
    """By how much."""

    sku: str = Field(min_length=1, max_length=20, description="The stock-keeping unit, e.g. CUP-BLUE")
    change: int = Field(ge=-1000, le=1000, description="Pieces to add, or to take away when negative")
    reason: str = Field(min_length=1, max_length=500, description="Why")


class StockAdjusted(Result):
    """What is there now."""

    sku: str
    stock: int


def adjust_facts(params: AdjustStock, world: World) -> Mapping[str, object]:
    """Read the product that the person decides on."""
    product = _product(world, params)
    word = "Take {} from" if params.change < 0 else "Add {} to"
    return {"what": word.format(abs(params.change)), "product": product.name, "sku": product.sku}


@flow(
    id="stock.adjust",
    title="Adjust stock",
    effects=[writes("stock", Product)],
    scope="stock:adjust",
    asks="{what} the stock of {product} ({sku})",
    facts=adjust_facts,
    rule=Rule.CLIENT,
    unattended=True,
    errors=(ProductNotFound, StockTooLow),
)
def adjust_stock(params: AdjustStock, world: World) -> StockAdjusted:
    """Correct the number of pieces of one product after a count or a loss. Not for prices."""
    product = _product(world, params)
    product.stock += params.change
    return StockAdjusted(sku=product.sku, stock=product.stock)


def _product(world: World, params: AdjustStock) -> Product:
    product = world.session.scalars(select(Product).where(Product.sku == params.sku)).one_or_none()
    if product is None:
        raise ProductNotFound
    if product.stock + params.change < 0:
        raise StockTooLow
    return product
