"""What a report on transformers is asked for."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from .._types import Json
from .. import Sequences, Transformer, tasks
from .options import Descent, require_seeds

CONTRASTS = ((Fraction(1, 2), Fraction(1, 2)), (Fraction(1), Fraction(0)), (Fraction(1, 2), Fraction(0)),
             (Fraction(1), Fraction(1, 2)))  # alpha + gamma = 1, twice, below and above


@dataclass(frozen=True)
class TransformerOptions(Descent):
    """A transformer on text, its depth scaling and learning rates, and the real networks to train; all checks are made
    when it is built.

    lr: one, or one a step; steps, batch, positions, data_seed: of ``tp.tasks.text``; widths and depths: of real
    networks, each with ``seeds`` seeds from ``seed`` on.
    """

    steps: int = 3
    batch: int = 2
    positions: int = 4
    head_dim: int = 2
    phi: str = "gelu"
    data_seed: int = 0
    depths: tuple[int, ...] = (4, 8, 16, 32)
    widths: tuple[int, ...] = (32, 64, 128, 256)
    seeds: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        require_seeds(self.seeds)
        if self.positions < 2:
            raise ValueError(f"positions: got {self.positions}; expected a whole number of at least 2, to attend")
        for width in self.widths:
            self.net.require_width(width)
        self.opt.schedule(self.steps)
        self.task

    @property
    def net(self) -> Transformer:
        return Transformer(head_dim=self.head_dim, positions=self.positions, phi=self.phi)

    @cached_property
    def task(self) -> Sequences:
        return tasks.text(self.steps, self.batch, self.positions, self.data_seed).sequences()

    @property
    def scalings(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """(alpha, gamma) of which best learning rates are looked for: the report's own and some beside it."""
        return tuple(dict.fromkeys([(self.alpha, self.gamma), *CONTRASTS]))

    @property
    def numbers(self) -> Json:
        """Everything that the results depend on."""
        return {"net": repr(self.net), "alpha": str(self.alpha), "gamma": str(self.gamma), "lr": list(self.lr),
                "task": f"text({self.steps}, {self.batch}, {self.positions}, {self.data_seed})"}

    def command(self) -> str:
        """The command line of this report."""
        given = {"alpha": self.alpha, "gamma": self.gamma, "lr": ",".join(f"{rate:g}" for rate in self.lr),
                 "steps": self.steps, "batch": self.batch, "positions": self.positions, "head-dim": self.head_dim,
                 "phi": self.phi, "data-seed": self.data_seed, "depths": ",".join(map(str, self.depths)),
                 "widths": ",".join(map(str, self.widths)), "seeds": self.seeds, "seed": self.seed}
        return shlex.join(["tpcalc", "report", "--net", "transformer", *(
            word for name, value in given.items() for word in (f"--{name}", str(value)))])
