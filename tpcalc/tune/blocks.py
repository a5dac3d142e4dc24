"""The networks that named recipes are for, by the names of their blocks, and what recipes set there."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from ..scaling import Parametrization, Powers, Scaling
from ..scaling.parametrization import Frozen
from ..models import ResNet, Transformer
from ..programs.blocks import Branch, mlp
from ..training.by_parameter import settings_in_layers
from ..models.network import Network
from ..training.settings import Settings
from .named import BOTTLENECK, FROM_ZERO, GATED, LAYER, MLP, ONE, POST_NORM, SCALED, NamedRecipe


def scaled(b: Branch) -> sp.Expr:
    """An MLP whose output is multiplied, coordinate by coordinate, by a trained vector, as in LayerScale."""
    return b.trained("s") * b.let("r", mlp(2)(b))


# A norm after a branch, x <- norm(x + eps f(x)), is x <- x + eps |x| f(x / |x|) with one norm at the end, |x| being
# the root mean square of the sum of all branches: of order one where the stream is, so that powers of L are as before.
BLOCKS: dict[str, Network] = {
    ONE: ResNet(), MLP: ResNet("relu", "mlp", norm="rms"), LAYER: Transformer(phi="relu"),
    POST_NORM: Transformer(phi="relu"), SCALED: ResNet("relu", scaled, norm="rms"),
    FROM_ZERO: ResNet("relu", "mlp"), BOTTLENECK: ResNet("relu", "mlp", matrices=3), GATED: ResNet("relu", "mlp")}


def set_on_block(entry: NamedRecipe, optimizer: str | None = None) -> Settings:
    """What a recipe sets for everything that a layer of its own block has; optimizer: None for its own."""
    net, own = BLOCKS[entry.block], optimizer or entry.optimizer or "adam"
    if entry.powers is None:
        assert entry.target is not None
        return realized_settings(net, own, entry.target)
    front = {name: entry.powers[name] for name in entry.zero if name not in net.trained_of_block}
    layer = {name: one for name, one in entry.powers.items() if name not in front}
    found = settings_in_layers(Parametrization(depth=layer), net, own, decay=entry.decay, gradient=entry.gradient,
                               zero=entry.zero)
    return replace(found, powers=Frozen({**found.powers, **front}))


def realized_settings(net: Network, optimizer: str, scale: Scaling) -> Settings:
    """What comes to exponents from initial sizes as they are, with an eps that goes with gradients."""
    usual = Frozen(dict.fromkeys(net.trained_of_block, Powers()))
    return Settings(net, usual, optimizer).realized(scale).with_eps_in_proportion
