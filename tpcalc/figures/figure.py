"""A figure of a paper: what it shows, what stands in for what does not ship, and how it is drawn."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Callable, Generator, Literal, Mapping, TypeVar

import numpy as np

from .._checks import short
from ..errors import NotCovered
from ..studies.jobs import Progress
from .images import DIGITS, Images
from .trainings import losses_of

Size = Literal["toy", "usual", "full"]
IMAGES = "images"
AGREES = {True: "agrees", False: "disagrees", None: "not resolved"}
PAPERS = ("tp6", "depthwise")
Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Conclusion:
    """What a paper concludes from a figure, and what the numbers drawn here say of it; agrees: None where their errors
    leave it open."""

    claim: str
    numbers: str
    agrees: bool | None

    def __str__(self) -> str:
        return f"{AGREES[self.agrees]}: {self.claim} ({self.numbers})"


@dataclass(frozen=True)
class Drawing:
    """picture: a matplotlib figure; numbers: what is drawn, by name; conclusions: of the paper, held against them."""

    picture: Any
    numbers: Mapping[str, Any]
    conclusions: tuple[Conclusion, ...]


@dataclass(frozen=True)
class Sizes:
    """How much is trained: "toy" in seconds, "usual" in about two minutes, "full" at the paper's sizes; data: what
    images, as in ``Images``."""

    size: Size = "usual"
    data: str = DIGITS

    def of(self, toy: Choice, usual: Choice, full: Choice) -> Choice:
        """What is chosen at this size."""
        return {"toy": toy, "usual": usual, "full": full}[self.size]

    def images(self, steps: int, batch: int) -> Images:
        """Batches of the images that were asked for."""
        return Images(self.data, steps, batch)


Asked = Generator[np.ndarray, np.ndarray, Drawing]  # trainings, their losses, what is drawn


@dataclass(frozen=True)
class Figure:
    """A figure of a paper.

    key: such as "tp6/11"; shows: its quantity; instead: what differs from the paper's at the usual size; asks: yields
    the trainings that it needs, is sent their losses, and returns the drawing. None where it is not drawn; instead
    then says why; data: what it trains on, where it is not the images that are asked for.
    """

    key: str
    shows: str
    instead: str
    asks: Callable[[Sizes], Asked] | None = field(repr=False, default=None)
    data: str = IMAGES

    def draw(self, sizes: Sizes = Sizes(), executor: Executor | None = None, folder: Path | None = None,
             progress: Progress | None = None) -> Drawing:
        """Train what it needs, and draw it; executor, folder (as resume) and progress as in ``tp.transfer``.

        Raises ``ValueError`` where the figure is not drawn, saying why.
        """
        asked = self.require(sizes)(sizes)
        found: np.ndarray | None = None
        while True:
            try:
                trainings = asked.send(found)  # type: ignore[arg-type]  # None first, as generators are begun
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            found = losses_of(trainings, executor, folder, progress)

    def cost(self, sizes: Sizes) -> tuple[int, float]:
        """How many trainings it asks for first, and how many multiplications are in them."""
        trainings = next(self.require(sizes)(sizes), np.zeros(0, dtype=object))
        return trainings.size, float(sum(one.cost for one in trainings.ravel()))

    def require(self, sizes: Sizes) -> Callable[[Sizes], Asked]:
        """What draws it; ``ValueError`` where nothing does, or where it takes no images and some are given."""
        if self.asks is None:
            raise NotCovered(f"figure {self.key}: it is not drawn: {self.instead}")
        if self.data != IMAGES and sizes.data != DIGITS:
            raise NotCovered(f"data: got {short(sizes.data)}; figure {self.key} is of {self.data}, and takes none")
        return self.asks


_figures: dict[str, Figure] = {}


def draws(key: str, shows: str, instead: str, data: str = IMAGES) -> Callable[
        [Callable[[Sizes], Asked]], Callable[[Sizes], Asked]]:
    """A decorator: the function asks for the trainings of a figure and draws it."""
    def keep(asks: Callable[[Sizes], Asked]) -> Callable[[Sizes], Asked]:
        _figures[key] = Figure(key, shows, instead, asks, data)
        return asks
    return keep


def computed(key: str, shows: str, instead: str, data: str) -> Callable[
        [Callable[[Sizes], Drawing]], Callable[[Sizes], Drawing]]:
    """A decorator: the function draws a figure for which it asks for no trainings."""
    def keep(function: Callable[[Sizes], Drawing]) -> Callable[[Sizes], Drawing]:
        def asks(sizes: Sizes) -> Asked:
            yield np.zeros(0, dtype=object)  # so that costs are known before anything is computed
            return function(sizes)
        draws(key, shows, instead, data)(asks)
        return function
    return keep


def not_drawn(key: str, shows: str, why: str) -> None:
    """Say of a figure why it is not drawn."""
    _figures[key] = Figure(key, shows, why)


def figures() -> dict[str, Figure]:
    """All figures by key, in the order of the papers."""
    for paper in PAPERS:
        package = import_module(f".{paper}", __package__)
        for module in iter_modules(package.__path__):
            import_module(f".{paper}.{module.name}", __package__)
    return {key: _figures[key] for key in sorted(_figures, key=_order)}


def figure_of(key: str) -> Figure:
    """The figure of a key; ``ValueError`` names all keys."""
    found = figures()
    if key not in found:
        raise ValueError(f"figure: got {short(key)}; expected one of {', '.join(found)}")
    return found[key]


def _order(key: str) -> tuple[int, str, int]:
    paper, number = key.split("/")
    appendix = number[0] if number[0].isalpha() else ""
    return PAPERS.index(paper), appendix, int(number.removeprefix(appendix))
