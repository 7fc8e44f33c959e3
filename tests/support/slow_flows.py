"""Flows that take their time and say how far they are; loaded through COUNTERSIGN_FLOWS."""

import time
from collections.abc import Mapping

from flows.catalogue.tables import Product
from flows.effects import reads, writes
from flows.operation import Params, Result, flow
from flows.world import World


class Steps(Params):
    """How long, in tenths of a second."""

    steps: int


class Counted(Result):
    """How far it came."""

    steps: int


def _count(params: Steps, world: World) -> Counted:
    for step in range(params.steps):
        world.progress(step + 1, params.steps, f"Step {step + 1} of\n{params.steps}.")
        time.sleep(0.1)
    return Counted(steps=params.steps)


@flow(id="slow.count", title="Count slowly", effects=[reads("stock", Product)])
def slow_count(params: Steps, world: World) -> Counted:
    """Count, a tenth of a second for each."""
    return _count(params, world)


@flow(id="slow.twice", title="Count twice at once", effects=[reads("stock", Product)], at_once=2)
def slow_twice(params: Steps, world: World) -> Counted:
    """Count, while not more than one other does."""
    return _count(params, world)


def facts(params: Steps, world: World) -> Mapping[str, object]:
    """Say how often."""
    return {"steps": params.steps}


@flow(id="slow.change", title="Change slowly", effects=[writes("stock", Product)], asks="Count to {steps}", facts=facts)
def slow_change(params: Steps, world: World) -> Counted:
    """Count inside of a write."""
    return _count(params, world)
