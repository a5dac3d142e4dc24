"""Residual blocks drawn like deep programs, for networks ``tp.ResNet(block=...)``."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

from tpcalc.models import ResNet
from tpcalc.programs.blocks import Block, Branch
from tpcalc.programs.indices import L, l
from tpcalc.programs.language import MatVec, Transpose
from .drawn_programs import H, Recipe, drawn_recipe


def block_recipe(seed: int) -> Recipe:
    """The recipe of a seed's block: what a single block has no room for is left out."""
    recipe = drawn_recipe(np.random.default_rng([2027, seed]))
    return Recipe(recipe.branch, named=recipe.named, drift=recipe.drift, multiplier=recipe.multiplier, phi=recipe.phi,
                  pre=recipe.pre, point=recipe.point)


def block_of(recipe: Recipe, prefix: str = "") -> Block:
    """The block of a recipe; prefix: of the names of all vectors and matrices."""
    def block(branch: Branch) -> sp.Expr:
        def weights(name: str) -> sp.Expr:
            return branch.weights(prefix + name)

        def let(name: str, value: sp.Expr) -> sp.Expr:
            return branch.let(prefix + name, value)

        read = let("k", branch.phi(branch.x)) if recipe.phi and recipe.pre else branch.x
        first: sp.Expr = MatVec(weights("W"), read)
        if recipe.phi and not recipe.pre:
            first = let("k", branch.phi(let("h", first)))
        terms = [first]
        if recipe.branch == "parallel":
            terms.append(MatVec(weights("V"), read))
        elif recipe.branch != "one matrix":
            outer = weights("V" if recipe.branch == "sequence" else "W")
            terms = [MatVec(Transpose(outer) if recipe.branch == "with its transpose" else outer, let("u", first))]
        if recipe.named:
            terms = [let(f"p{number}", term) if isinstance(term, MatVec) else term for number, term in enumerate(terms)]
        value = sp.Add(*terms) * (1 - l / (2 * L) if recipe.multiplier else 1)
        return sp.expand(value + recipe.drift * branch.x)

    block.__name__ = f"drawn_{recipe.branch.replace(' ', '_')}"
    return block


def drawn_block(seed: int) -> Block:
    """The block of a seed, for ``tp.ResNet(block=...)``."""
    return block_of(block_recipe(seed))


@lru_cache(maxsize=256)
def drawn_net(recipe: Recipe, prefix: str = "", named: bool | None = None) -> ResNet:
    """A residual network of a recipe's block; named: overrides whether last products have names."""
    recipe = recipe if named is None else replace(recipe, named=named)
    phi = H**2 / 2 if recipe.phi == "square" else recipe.phi or "linear"
    return ResNet(phi, block=block_of(recipe, prefix))
