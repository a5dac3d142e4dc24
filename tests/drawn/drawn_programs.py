"""Training programs of any shape with layers at a symbolic depth scaling, drawn from a seed or by hypothesis."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Callable, Iterator, Mapping

import numpy as np
import sympy as sp
from hypothesis import strategies as st

from tpcalc._types import Fields, Value
from tpcalc.models.activations import H, activation
from tpcalc.programs.blocks import vector
from tpcalc.programs.indices import L, T, l, t
from tpcalc.programs.language import Family, LossDerivative, Mean, Scalar, Vector
from tpcalc.programs.program import Assign, Loop, Program, mapped
from .layer_sweep import LayerSweep, Line, Term
from .matrix_updates import Rule, initial_buffers, updates

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
HALF = sp.Rational(1, 2)
STEPS = 3
DATA: Mapping[str, list[float]] = {"xi": [0.8, 0.6, -0.5], "y": [1.0, -0.7, 0.5]}
ACTIVATIONS = ("tanh", "relu", "gelu", "abs", "square")
BRANCHES = ("one matrix", "sequence", "parallel", "twice", "with its transpose")
LAGS = ("", "mean", "leap", "delayed branch")
STREAMS = ("", "slow", "fast")
DRIFTS = (sp.Integer(0), -HALF, HALF)
POINTS = ((HALF, HALF), (sp.Integer(1), sp.Integer(0)), (sp.Rational(3, 4), sp.Rational(1, 4)),
          (HALF, sp.Rational(3, 4)), (sp.Integer(1), HALF), (HALF, sp.Rational(1, 4)), (sp.Rational(1, 4), HALF))


@dataclass(frozen=True)
class Recipe:
    """What a drawn program is made of; the defaults are the plain linear residual network under plain SGD.

    branch: "one matrix" W x, "sequence" V W x, "parallel" W x + V x, "twice" W W x, "with its transpose" W^T W x;
    sublayers: residual branches in a layer, the second with a matrix of its own; stream: a second family that layers
    carry on, "slow" v = v + eps R x or "fast" v = (v + x)/2, which the branch acts on; lag: the stream is the "mean"
    of the last two layers, or "leap"s over one, or the branch acts on the layer before the last one; named: has the
    last product a name?; tied: is W one matrix for all layers?; drift: c of c eps x in a layer; multiplier: is a
    branch multiplied by a function of l/L?; phi: an activation, "" for none, on the "post_nonlin" or "pre_nonlin" side
    of W; step_rate, layer_rate, momentum, decay: of the optimizer of W, the last two functions of l/L; others: have the
    other matrices plain SGD at another rate?; parts: have the first and the second half of the layers two optimizers?
    point: (alpha, gamma).
    """

    branch: str = "one matrix"
    sublayers: int = 1
    stream: str = ""
    lag: str = ""
    named: bool = False
    tied: bool = False
    drift: sp.Rational = sp.Integer(0)
    multiplier: bool = False
    phi: str = ""
    pre: bool = False
    step_rate: bool = False
    layer_rate: bool = False
    momentum: bool = False
    decay: bool = False
    others: bool = False
    parts: bool = False
    point: tuple[sp.Rational, sp.Rational] = POINTS[0]

    def __str__(self) -> str:
        changed = (f for f in fields(self) if f.name == "point" or getattr(self, f.name) != f.default)
        return "Recipe(" + ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in changed) + ")"

    def simpler(self) -> Iterator["Recipe"]:
        """Recipes that lack one thing each, for shrinking; all at the same point."""
        for f in fields(self):
            if f.name != "point" and getattr(self, f.name) != f.default:
                plain: Fields = {f.name: f.default}
                yield _without_idle(replace(self, **plain))

    @property
    def is_linear(self) -> bool:
        return not self.phi

    @cached_property
    def sweep(self) -> LayerSweep:
        """The layer."""
        return _Layer(self).sweep()

    @property
    def features(self) -> frozenset[str]:
        """What is odd about the program, by name; all of ``FEATURES`` are drawn often."""
        products = [term for line in self.sweep.lines for term in line.terms if term.matrix]
        streamed = [term for line in self.sweep.lines for term in line.terms
                    if term.matrix and len(line.terms) > 1]
        several = len(self.sweep.matrices) > 1
        has = {"two sublayers": self.sublayers > 1, "two streams": bool(self.stream), "lag": bool(self.lag),
               "sequence": self.branch in ("sequence", "twice", "with its transpose"),
               "parallel": self.branch == "parallel", "repeated matrix": len(products) > len(self.sweep.matrices),
               "tied matrix": self.tied, "drift": bool(self.drift), "branch multiplier of l": self.multiplier,
               "nonlinear": bool(self.phi), "rate of t": self.step_rate, "rate of l": self.layer_rate,
               "heavy ball": self.momentum, "decay of l": self.decay,
               "several optimizers": self.others and several, "optimizers over parts": self.parts,
               "named product": len(streamed) < len(products), "unnamed product": bool(streamed)}
        return frozenset(name for name, there in has.items() if there)


FEATURES = ("two sublayers", "two streams", "lag", "sequence", "parallel", "repeated matrix", "tied matrix", "drift",
            "branch multiplier of l", "nonlinear", "rate of t", "rate of l", "heavy ball", "decay of l",
            "several optimizers", "optimizers over parts", "named product", "unnamed product")


@dataclass
class _Layer:
    """Writes the lines of a recipe's layer."""

    recipe: Recipe
    lines: list[Line] = field(default_factory=list)

    def sweep(self) -> LayerSweep:
        r, read = self.recipe, Term("x", lag=2 if self.recipe.lag == "delayed branch" else 1)
        if r.stream == "slow":
            self.lines.append(Line("v", (Term("v", 1), Term("x", 1, power=1, matrix="R"))))
        elif r.stream == "fast":
            self.lines.append(Line("v", (Term("v", 1, HALF), Term("x", 1, HALF))))
        if r.stream:
            read = Term("v")
        lags = {"mean": ((1, HALF), (2, HALF)), "leap": ((2, sp.Integer(1)),)}.get(r.lag, ((1, sp.Integer(1)),))
        stream = [Term("x", lag, factor) for lag, factor in lags]
        if r.drift:
            stream.append(Term("x", 1, r.drift, power=1))
        a = 1 - l / (2 * L) if r.multiplier else sp.Integer(1)
        target = "z" if r.sublayers > 1 else "x"
        self.lines.append(Line(target, (*stream, *self.branch(read, a))))
        if r.sublayers > 1:
            self.lines.append(Line("x", (Term("z"), Term("z", factor=HALF, power=1, matrix="P"))))
        return LayerSweep(tuple(self.lines), frozenset({"W"} if r.tied else ()))

    def branch(self, read: Term, a: sp.Expr) -> list[Term]:
        """The terms that the branch adds to a line, with eps and its multiplier."""
        r = self.recipe
        if r.phi and r.pre:
            read = self.let("k", replace(read, phi=activation_of(r.phi)))
        first = replace(read, matrix="W")
        if r.phi and not r.pre:
            first = self.let("k", replace(self.let("h", first), phi=activation_of(r.phi)))
        terms = [first]
        second = {"sequence": ("V", False), "twice": ("W", False), "with its transpose": ("W", True)}.get(r.branch)
        if second is not None:
            inner = first if r.phi and not r.pre else self.let("u", first)
            terms = [replace(inner, matrix=second[0], turned=second[1])]
        elif r.branch == "parallel":
            terms.append(replace(read, matrix="V"))
        if r.named:
            terms = [self.let(f"p{number}", term) if term.matrix else term for number, term in enumerate(terms)]
        return [replace(term, factor=a * term.factor, power=1) for term in terms]

    def let(self, name: str, term: Term) -> Term:
        self.lines.append(Line(name, (term,)))
        return Term(name)


def activation_of(name: str) -> sp.Lambda:
    """An activation of a drawn program; "square" is h^2/2, the only one that grows faster than linearly."""
    return sp.Lambda(H, H**2 / 2 if name == "square" else activation(name)(H))


@dataclass(frozen=True)
class DeepProgram:
    """A drawn training program, and what a reading of it needs besides.

    program: at a symbolic depth scaling; recipe: what it is made of; steps: T; data: inputs xi and targets y.
    """

    recipe: Recipe
    seed: int | None = None
    steps: int = STEPS

    @cached_property
    def program(self) -> Program:
        return training_program(self.recipe)

    @property
    def features(self) -> frozenset[str]:
        return self.recipe.features

    @property
    def is_linear(self) -> bool:
        return self.recipe.is_linear

    @property
    def point(self) -> tuple[sp.Rational, sp.Rational]:
        return self.recipe.point

    @property
    def data(self) -> Fields:
        """By name: inputs, targets, alpha and gamma."""
        alpha, gamma = self.point
        return {**{name: values[:self.steps] for name, values in DATA.items()}, "alpha": alpha, "gamma": gamma}

    def sizes(self, depth: int) -> dict[sp.Symbol, int]:
        return {T: self.steps, L: depth}

    def at_point(self) -> Program:
        """The program with numbers for alpha and gamma."""
        return with_numbers(self.program, dict(zip((ALPHA, GAMMA), self.point)))

    def __str__(self) -> str:
        at = ", ".join(f"{name} = {value}" for name, value in zip(("alpha", "gamma"), self.point))
        return f"seed {self.seed}: {self.recipe}\n{self.program}\n  at {at}, data {dict(DATA)}"

    __repr__ = __str__  # what hypothesis shows of a failing example


def with_numbers(program: Program, numbers: Mapping[sp.Symbol, sp.Expr]) -> Program:
    """Numbers for a program's parameters."""
    return replace(program, body=mapped(program.body, lambda s: [Assign(s.target, s.value.subs(numbers))]))


def training_program(recipe: Recipe) -> Program:
    """The training of a recipe's network: f = mean(nV x^L), on one input xi[t] U a step."""
    sweep, eps = recipe.sweep, L**-ALPHA
    U, nV = Family(Vector, "U")(), Family(Vector, "nV")()
    xi, f, chi = Family(Scalar, "xi", r"\xi"), Family(Scalar, "f"), Family(Scalar, "chi", r"\chi")
    gradients, before, after = sweep.gradients(), [], []
    for name, gradient in gradients.items():
        rules = rules_of(recipe, name)
        before += initial_buffers(sweep, name, rules)
        after += updates(sweep, name, gradient, L**-GAMMA, rules)
    body = (*sweep.forward(eps, xi[t] * U), Assign(f[t], Mean(nV * vector("x")[t, L])),
            Assign(chi[t], LossDerivative(f[t], t)), *sweep.backward(eps, chi[t] * nV), *after)
    return Program("drawn", (U, nV), tuple(sweep.weights(name, sp.Integer(0)) for name in gradients), (xi[t],),
                   (*before, Loop(t, sp.Integer(0), T - 1, body)), (T, L),
                   {L: "is the depth", T: "is the number of steps"})


def rules_of(recipe: Recipe, name: str) -> tuple[Rule, ...]:
    """The optimizers of one matrix: one for all layers, or one for each half of them."""
    if recipe.others and name != recipe.sweep.matrices[0]:
        return (Rule(HALF),)
    rate = HALF / (t + 1) if recipe.step_rate else HALF
    if recipe.layer_rate:
        rate *= 1 - l / (2 * L)
    rule = Rule(rate, (1 + l / L) / 4 if recipe.momentum else sp.Integer(0),
                1 - l / (2 * L) if recipe.decay else sp.Integer(1))
    if name in recipe.sweep.tied:
        rule = replace(rule, momentum=rule.momentum.subs(l, L), kept=rule.kept.subs(l, L))
        return (rule,)
    return (rule, Rule(HALF / 2)) if recipe.parts else (rule,)


def drawn_recipe(rng: np.random.Generator) -> Recipe:
    """A recipe in which every feature has a probability of at least 1/5."""
    def chance(p: float = 0.26) -> bool:
        return bool(rng.random() < p)

    def one(values: Value, *weights: float) -> Value:
        return values[int(rng.choice(len(values), p=weights or None))]

    recipe = Recipe(
        branch=one(BRANCHES, 0.3, 0.18, 0.24, 0.14, 0.14), sublayers=1 + chance(),
        stream=one(STREAMS, 0.74, 0.13, 0.13), lag=one(LAGS, 0.73, 0.09, 0.09, 0.09), named=chance(0.35),
        tied=chance(0.24), drift=one(DRIFTS, 0.75, 0.15, 0.1), multiplier=chance(),
        phi=one(ACTIVATIONS) if chance() else "", pre=chance(0.5), step_rate=chance(), layer_rate=chance(),
        momentum=chance(), decay=chance(), others=chance(0.4), parts=chance(0.36))
    return replace(_without_idle(recipe), point=_point(recipe, one(POINTS, 0.35, 0.25, 0.15, 0.1, 0.05, 0.05, 0.05)))


def _without_idle(recipe: Recipe) -> Recipe:
    """The recipe without choices that change nothing."""
    lag = "" if recipe.stream and recipe.lag == "delayed branch" else recipe.lag
    return replace(recipe, pre=recipe.pre and bool(recipe.phi), lag=lag, parts=recipe.parts and not recipe.tied,
                   others=recipe.others and len(recipe.sweep.matrices) > 1)


def _point(recipe: Recipe, drawn: tuple[sp.Rational, sp.Rational]) -> tuple[sp.Rational, sp.Rational]:
    """What a layer does alike at every layer needs alpha = 1: elsewhere few programs would have a limit."""
    alike = recipe.tied or recipe.drift or recipe.branch == "with its transpose"
    return POINTS[1] if alike and drawn == POINTS[0] else drawn


def deep_program(seed: int) -> DeepProgram:
    """The drawn program of a seed."""
    return DeepProgram(drawn_recipe(np.random.default_rng([2026, seed])), seed)


def smallest(recipe: Recipe, breaks: Callable[[Recipe], bool]) -> Recipe:
    """The recipe without all that can be left out, one thing after another, while it still breaks a law."""
    simpler = next((one for one in recipe.simpler() if breaks(one)), None)
    return recipe if simpler is None else smallest(simpler, breaks)


def deep_programs() -> st.SearchStrategy[DeepProgram]:
    """Training programs with layers at a symbolic depth scaling, which shrink to the plain linear residual network."""
    flags = {f.name: st.booleans() for f in fields(Recipe) if isinstance(f.default, bool)}
    recipes = st.builds(
        Recipe, branch=st.sampled_from(BRANCHES), sublayers=st.integers(1, 2), stream=st.sampled_from(STREAMS),
        lag=st.sampled_from(LAGS), drift=st.sampled_from(DRIFTS), phi=st.just("") | st.sampled_from(ACTIVATIONS),
        point=st.sampled_from(POINTS), **flags)
    return recipes.map(lambda recipe: DeepProgram(_without_idle(recipe)))
