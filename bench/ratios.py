"""What the numbers say: ratios of adjacent rounds, their median and quartiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Ratio:
    """The first side's number over the second's, mostly requests per second, per pair of adjacent rounds."""

    name: str
    pairs: tuple[tuple[float, float], ...]
    unit: str = "requests a second"

    @property
    def each(self) -> list[float]:
        """The ratio of each pair, in the order they were measured."""
        return [first / second for first, second in self.pairs]

    @property
    def median(self) -> float:
        """The middle ratio: one disturbed round moves it little."""
        return median(self.each)

    def words(self) -> str:
        """The lines printed for people."""
        low, _, high = quantiles(self.each, n=4, method="inclusive") if len(self.each) > 1 else self.each * 3
        first, second = (median(side) for side in zip(*self.pairs, strict=True))
        each = " ".join(f"{ratio:.2f}" for ratio in self.each)
        return (
            f"{self.name}: median {self.median:.2f}, quartiles {low:.2f} to {high:.2f}"
            f"  ({first:.0f} against {second:.0f} {self.unit})\n    pairs: {each}"
        )


def summary(ratios: Sequence[Ratio]) -> dict[str, float]:
    """The last line: name and median, rounded to hundredths."""
    return {ratio.name: round(ratio.median, 2) for ratio in ratios}
