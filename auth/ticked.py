"""What a person ticks where a program asks for rights."""

from core.errors import BadRequest


class NothingTicked(BadRequest):
    """Connect without a right would connect nothing."""

    code = "nothing_ticked"
    public = "Tick at least one right, or cancel."
    remedy = "Tick at least one right, or cancel."
