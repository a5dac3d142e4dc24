"""``audit``: does a training script realize a depth recipe? Exponents measured on the models that it builds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from .. import _checks
from .._shown import Short, Tabled
from .._types import Fields
from ..tune.factors import settable
from ..scaling import Scaling
from .families import depth_key_of, of_family
from .findings import Finding, Power
from .judging import Measure
from .measuring import Make, MakeOptimizer, Script
from .streams import Loss

SHOWN = ("branch", "update", "skip", "growth")


@dataclass(frozen=True, repr=False)
class ModelAudit(Short, Tabled):
    """What an audit measured.

    findings: what is not as it should be, empty where ``ok``; powers: (quantity, pattern) -> measured power, of the
    depth, of the number of visits or of the width as the quantity begins with; not_checked: sentences on what was not;
    recipe: the name, or None; grows: "L", or "N" where layers are visited more often in deeper models.
    """

    recipe: str | None
    depths: tuple[int, ...]
    findings: tuple[Finding, ...]
    powers: dict[tuple[str, str], Power]
    not_checked: tuple[str, ...]
    grows: str = "L"

    @property
    def ok(self) -> bool:
        """With a recipe: are all exponents its exponents? Without: is training stable and nontrivial?"""
        return not self.findings

    @property
    def rows(self) -> list[Fields]:
        """One dictionary a measured power."""
        return list({"quantity": quantity, "pattern": pattern, "power": power.value, "error": power.error}
                    for (quantity, pattern), power in self.powers.items()
                    if power.is_known and quantity.split()[-1] in SHOWN)

    def __str__(self) -> str:
        asked = self.recipe or f"stable and nontrivial in {'depth' if self.grows == 'L' else 'visits'}"
        verdict = f"{asked}: " + ("yes" if self.ok else f"no, {len(self.findings)} findings")
        return "\n".join([verdict, *map(str, self.findings), *(f"not checked: {one}" for one in self.not_checked)])


def audit(make: Make, optimizer: MakeOptimizer | None = None, depths: Sequence[int] = (4, 16),
          widths: Sequence[int] | None = None, recipe: str | Scaling | None = None, depth_key: str | None = None,
          width_key: str | None = None, loss: Loss | None = None, batch: object = None) -> ModelAudit:
    """Measure powers of the depth on live models: of initial branches, of first updates, of eps and decay in groups.

    Parameters
    ----------
    make:
        called as make(**{depth_key: depth}), and with {width_key: width} for widths; returns a ``torch.nn.Module``. Or
        a ``PlanFamily``, whose models have their plans applied. depth_key is "n_layer" by default; of a family it is
        "num_hidden_layers" where that is what its models take, or else the only argument that its base says.
    optimizer:
        a function of the model that returns a ``torch.optim.Optimizer``, as the script makes it, or a list of some,
        such as Muon for matrices and AdamW for the rest; of a family, None is ``family.trainer()``.
    depths, widths:
        two sizes or more. Without widths nothing that needs them is checked, which ``not_checked`` says.
    recipe:
        as in ``plan``: a name of ``tp.named_recipes()``, or a scaling; None is that of a family, and else asks
        whether training is stable and nontrivial in depth.
    loss:
        a function of model and batch that returns a tensor of one number; None is the mean squared distance
        of outputs to drawn ones.
    batch:
        what the model takes; None draws one for its first embedding, linear layer or convolution.

    The verdict is made of measurements alone. Residual streams and their layers are those that a reading of the live
    models finds, however parameters are called. Where depth_key says how often layers are visited, by the same
    matrices, powers are those of that number, measured at first visits. Raises ``NotCovered`` without a residual
    stream, where matrices are shared by layers of different numbers, and where both numbers grow, ``ValueError``
    where no layers are added with the depth, and for depths that are no growing whole numbers. Source: Tensor Programs
    VI, Definition 4.1 and section 5 [tensor_programs_vi/definition_41]; of visits [tpcalc/loops].

    >>> import torch
    >>> from torch import nn
    >>> class Net(nn.Module):
    ...     def __init__(self, n_layer, n=32):
    ...         super().__init__()
    ...         self.emb, self.head, self.m = nn.Linear(3, n), nn.Linear(n, 1), n_layer**-0.5
    ...         self.h = nn.ModuleList(
    ...             nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n)) for _ in range(n_layer))
    ...     def forward(self, x):
    ...         x = self.emb(x)
    ...         for block in self.h:
    ...             x = x + self.m * block(x)
    ...         return self.head(x)
    >>> audit(Net, lambda model: torch.optim.SGD(model.parameters(), lr=0.1), recipe="depth-mup").ok
    True
    >>> found = audit(Net, lambda model: torch.optim.Adam(model.parameters(), eps=1e-12), recipe="depth-mup")
    >>> sorted({finding.quantity for finding in found.findings})
    ['eps over gradients, power of the depth', 'update, power of the depth']
    """
    optimizer, recipe = of_family(make, optimizer, recipe)
    depth_key = depth_key_of(make, depth_key)
    title = None if recipe is None else settable(recipe).name  # refused before any work
    sizes = _checks.sizes("depths", depths, least=2, growing=True)
    across = None if widths is None else _checks.sizes("widths", widths, least=2, growing=True)
    if across is not None and not isinstance(width_key, str):
        raise ValueError(f"width_key: got {_checks.short(width_key)} with widths; expected the argument of make "
                         "that is the width")
    fixed = {} if across is None else {str(width_key): across[0]}
    configs = [{depth_key: depth, **fixed} for depth in sizes]
    measure = Measure(Script.of(make, optimizer, loss, batch, configs[0], configs[-1], depth_key))
    found, powers, left = measure.of_depth(sizes, configs, recipe)
    if across is None:
        left.append("powers of the width: give widths= and width_key=")
    else:
        more = measure.of_width(across, [{depth_key: sizes[0], str(width_key): n} for n in across])
        found, powers, left = [*found, *more[0]], {**powers, **more[1]}, [*left, *more[2]]
    return ModelAudit(title, tuple(sizes), tuple(found), powers, tuple(left), measure.live.grows)
