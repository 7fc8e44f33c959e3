"""Money as people read it."""


def money(minor_units: int, currency: str) -> str:
    """Write integer minor units, e.g. `45.00 EUR`; every currency of the shop has two decimals."""
    whole, cents = divmod(abs(minor_units), 100)
    return f"{'-' if minor_units < 0 else ''}{whole}.{cents:02d} {currency}"
