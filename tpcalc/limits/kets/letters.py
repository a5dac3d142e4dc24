"""Letters for what a layer draws and names for the functions that it applies, as equations and steps are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy as sp

from ...calculus.kets import Hat
from ...calculus.memory import initial_weight_factor_of
from ...models.activations import H
from ...gaussian.scalar_functions import DerivativeAt
from ...gaussian.variables import Expectation
from ...programs.language import Scalar
from .nodes import FunctionValue, LayerGaussian
from .passes import other_sample
from .sums import regrouped

if TYPE_CHECKING:
    from .expansion import LayerExpansion

K = sp.Symbol("k", integer=True)
LETTERS = (*"uvyzabcwg", *"zeta eta theta iota kappa mu nu sigma tau upsilon chi psi omega".split())


class Lettering:
    """Hats as Gaussians u_t, v_t, ..., and functions of one variable as phi, or phi_1, phi_2, ..."""

    def __init__(self, expansion: "LayerExpansion") -> None:
        self.expansion, self.layer = expansion, expansion.layer

    def letter(self, hat: Hat) -> sp.Symbol:
        """The letter of a hat's product: none of the program's."""
        setting = self.layer.setting
        product, _ = setting.product_like(hat.vector)
        program = setting.program
        taken = {one.name for one in (*setting.families, *program.vectors, *program.data)}
        taken |= {one.name for equation in self.layer.outside for one in equation.target.atoms(Scalar)}
        free = [one for one in LETTERS if one not in taken]
        if product.number >= len(free):
            raise self.layer.refused(f"it has more than {len(free)} products of a layer, and no more letters for them")
        return sp.Symbol(free[product.number])

    def fresh(self, hat: Hat) -> sp.Expr:
        """The Gaussian that a hat is, without rho where weights decay."""
        step, *sample = hat.vector.vector.indices[:-1]
        return LayerGaussian(self.letter(hat), sp.Tuple(step, *sample) if sample else step)

    def scale(self, hat: Hat) -> sp.Expr:
        """rho of the hat's matrix at its step, where weights decay; else 1."""
        now = self.layer.passes.of_now(hat)
        rho = initial_weight_factor_of(hat.vector.matrix.member)
        for equation in self.layer.equations:
            for term in sp.Add.make_args(equation.value):
                factors = sp.Mul.make_args(term)
                if now in factors:
                    scales = [f for f in factors if isinstance(f, Scalar) and f.name == rho[0].name]
                    return self.layer.at(sp.Mul(*scales), self.layer.setting.step(hat.vector.vector))
        return sp.Integer(1)

    @property
    def names(self) -> dict[sp.Expr, sp.Symbol]:
        """Names of the functions that the layer applies."""
        curved = [f for f in self.expansion.means.functions.known if not f.is_polynomial(H)]
        return {f: sp.Symbol("phi" if len(curved) == 1 else f"phi_{i + 1}") for i, f in enumerate(curved)}

    def function_of(self, f: sp.Expr, order: int, argument: sp.Expr) -> sp.Expr:
        """phi^(k) of something by the function's name; of polynomials the value."""
        if f.is_polynomial(H):
            return f.diff(H, order).xreplace({H: argument})
        return FunctionValue(self.names[f], order, argument)

    def named(self, value: sp.Expr) -> sp.Expr:
        """With letters for hats, and means of functions of these instead of means with a law of their own."""
        whose = {mean: self._whose(mean) for mean in value.atoms(Expectation) if mean.has_law}
        means = {mean: Expectation(sp.Mul(*(self.function_of(f, j, self.fresh(hat)) for hat, f, j in hats)))
                 for mean, hats in whose.items() if hats}
        value = value.xreplace(means)
        for hat in sorted(value.atoms(Hat), key=sp.default_sort_key):
            value = value.xreplace({hat: self.fresh(hat) / self.scale(hat)})
        return value.replace(lambda e: isinstance(e, DerivativeAt), lambda e: self.function_of(*e.args))

    def step(self, value: sp.Expr) -> sp.Expr:
        """``named``, its terms gathered, with an index of its own for a sum within a sum."""
        passes = self.layer.passes
        own = {passes.s: K} | ({} if passes.i is None else {passes.j: other_sample(other_sample(passes.i))})

        def apart(outer: sp.Sum) -> sp.Expr:
            inner = {one: sp.Sum(one.function.xreplace(own), *((own.get(i, i), *ends) for i, *ends in one.limits))
                     for one in outer.function.atoms(sp.Sum)}
            return sp.Sum(outer.function.xreplace(inner), *outer.limits)
        return self.named(regrouped(value, self.expansion.depth)).replace(
            lambda e: isinstance(e, sp.Sum) and e.function.has(sp.Sum), apart)

    def _whose(self, mean: Expectation) -> list[tuple[Hat, sp.Expr, int]]:
        """The hats and functions that a mean is of; those of an earlier step alone are as those of the step."""
        whose = self.expansion.means.whose
        if mean in whose:
            return list(whose[mean])
        now = whose.get(self.layer.passes.of_now(mean), ())
        return [(self.layer.before(hat), f, j) for hat, f, j in now]
