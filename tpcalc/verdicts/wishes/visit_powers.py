"""Wishes in powers of the number of visits: sizes of a network whose layers are visited N times, and what is set."""

from __future__ import annotations

from fractions import Fraction
from typing import Sequence

from ...scaling import Parametrization
from ..counting import Counting, symbols_of
from ..visits import program_of_visits
from .settings import DECAYING, TRAINING, DepthSettings
from .sizes import DepthSizes


class VisitSizes(DepthSizes):
    """The sizes of a training whose layers are visited N times, as ``classify_visits`` counts them."""

    grows, summed = "N", 1

    def _terms(self) -> Counting:
        return Counting.of(program_of_visits(self.net, Parametrization(depth=symbols_of(self.net))))


class VisitSettings(DepthSettings):
    """What an optimizer and a branch multiplier are set to, as powers of N."""

    def recipe(self, point: Sequence[Fraction]) -> None:
        """None: no scaling has powers of N, by which builders divide."""

    @property
    def assumed(self) -> list[str]:
        return [TRAINING, *[DECAYING] * self.has_decay]
