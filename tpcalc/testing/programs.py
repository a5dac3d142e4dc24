"""A hypothesis strategy for linear Tensor Programs that shrink to small readable ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, Mapping

import sympy as sp

from .._types import Value
from ..errors import MissingExtra
from ..programs.language import Family, Matrix, MatVec, Mean, Outer, Scalar, Transpose, Vector
from ..programs.program import Assign, Loop, Program, Statement, assignments

try:
    from hypothesis import strategies as st
except ImportError:
    raise MissingExtra("hypothesis", "test", "tpcalc.testing") from None

T, L = sp.symbols("T L", integer=True, positive=True)
t = sp.Symbol("t", integer=True, nonnegative=True)
ALPHA = sp.Symbol("alpha", real=True)
HALF = sp.Rational(1, 2)
FORMS = ("sum", "product", "product", "product", "product", "mean", "scaled", "update")
COEFFICIENTS = (sp.Integer(1), sp.Integer(-1), HALF, -HALF)
INITIAL = tuple(Family(Vector, name)() for name in ("a", "b", "c"))
MATRICES = tuple(Family(Matrix, name) for name in ("W", "V"))


@dataclass(frozen=True)
class ProgramExample:
    """A program with what an interpreter of it needs besides: ``read_program_coefficients(*example)``."""

    program: Program
    sizes: Mapping[sp.Symbol, int]
    data: Mapping[str, Value]

    def __iter__(self) -> Iterator[Value]:
        return iter((self.program, self.sizes, self.data))

    def __repr__(self) -> str:  # what hypothesis shows of a failing example
        return f"{self.program}\n  at sizes {dict(self.sizes)}, data {dict(self.data)}"


@dataclass(frozen=True)
class _Recipe:
    """One statement before it is known what there is to read: numbers that choose among it, 0 the simplest."""

    form: str                    # "sum", "product", "mean", "scaled", "update"
    picks: tuple[int, int]       # of vectors
    matrix: int
    transposed: bool
    scalar: int
    factor: sp.Expr


@dataclass
class _Writer:
    """Turns recipes into statements; ``clock`` is t in a loop, or None for straight-line programs."""

    recipes: list[_Recipe]
    vectors: int
    clock: sp.Symbol | None
    body: list[Statement] = field(default_factory=list)
    before: dict[Vector, Assign] = field(default_factory=dict)
    scalars: list[Scalar] = field(default_factory=list)
    versions: dict[Family, int] = field(default_factory=dict)
    updates: dict[Family, list[sp.Expr]] = field(default_factory=dict)

    def member(self, kind: type, name: str, number: int, back: int = 0) -> Value:
        family = Family(kind, f"{name}{number}")
        return family() if self.clock is None else family[self.clock - back]

    def vector(self, pick: int, number: int) -> Vector:
        """An initial vector, one of this step assigned before statement ``number``, or one of the step before."""
        made = [i for i, recipe in enumerate(self.recipes) if recipe.form not in ("mean", "update")]
        known = [*(self.member(Vector, "x", i) for i in reversed(made) if i < number), *INITIAL[:self.vectors]]
        old = [self.member(Vector, "x", i, back=1) for i in made] if self.clock is not None else []
        chosen = (known + old)[pick % len(known + old)]
        if chosen in old:
            first = chosen.at(-1)
            self.before[first] = Assign(first, INITIAL[pick % self.vectors])
        return chosen

    def matrix(self, number: int) -> Value:
        family = MATRICES[number]
        if self.clock is not None and any(r.form == "update" and r.matrix == number for r in self.recipes):
            return family[self.clock]
        return family[self.versions.get(family, 0)]

    def write(self) -> list[Statement]:
        for number, recipe in enumerate(self.recipes):
            self.statement(number, recipe)
        if self.clock is None:
            return self.body
        ends = [Assign(family[self.clock + 1], family[self.clock] + sp.Add(*terms))
                for family, terms in self.updates.items()]
        return [*self.before.values(), Loop(self.clock, sp.Integer(0), T - 1, (*self.body, *ends))]

    def statement(self, number: int, recipe: _Recipe) -> None:
        u, v = (self.vector(pick, number) for pick in recipe.picks)
        if recipe.form == "mean":
            self.scalars.append(self.member(Scalar, "f", number))
            self.body.append(Assign(self.scalars[-1], Mean(u * v)))
        elif recipe.form == "update":
            family, term = MATRICES[recipe.matrix], recipe.factor * Outer(u, v)
            if self.clock is None:
                old = self.versions.get(family, 0)
                self.versions[family] = old + 1
                self.body.append(Assign(family[old + 1], family[old] + term))
            else:
                self.updates.setdefault(family, []).append(term)
        else:
            self.body.append(Assign(self.member(Vector, "x", number), self.value(recipe, u, v)))

    def value(self, recipe: _Recipe, u: Vector, v: Vector) -> sp.Expr:
        if recipe.form == "product":
            matrix = self.matrix(recipe.matrix)
            product = MatVec(Transpose(matrix) if recipe.transposed else matrix, u)
            return recipe.factor * product + v if recipe.scalar % 2 else recipe.factor * product
        if recipe.form == "scaled" and self.scalars:
            return u + recipe.factor * self.scalars[recipe.scalar % len(self.scalars)] * v
        return u + recipe.factor * v


@st.composite
def linear_programs(draw: st.DrawFn, max_statements: int = 8, max_vectors: int = 3, max_matrices: int = 2,
                    max_steps: int = 3, loops: bool | None = None) -> ProgramExample:
    """Linear Tensor Programs: products with matrices and their transposes, reused; linear combinations, with inner
    products and branch multipliers L^-alpha among the coefficients; updates of matrices by outer products.

    loops: True for a body in a loop over training steps, which also reads vectors of the step before, False for
    straight-line programs, None for both. max_vectors, max_matrices: at most 3 and 2. alpha = 1/2 and L is a square,
    so that all values are rational. Shrinks to few statements, no loop, initial vectors and factors 1.
    """
    if not (1 <= max_vectors <= len(INITIAL) and 1 <= max_matrices <= len(MATRICES)):
        raise ValueError(f"max_vectors, max_matrices: got {max_vectors}, {max_matrices}; expected 1 to "
                         f"{len(INITIAL)} and 1 to {len(MATRICES)}")
    looped = draw(st.booleans()) if loops is None else loops
    vectors, matrices = draw(st.integers(1, max_vectors)), draw(st.integers(1, max_matrices))
    numbers = st.integers(0, 2 * max_statements)
    recipe = st.builds(_Recipe, st.sampled_from(FORMS),
                       st.tuples(st.just(0) | numbers, numbers), st.integers(0, matrices - 1), st.booleans(), numbers,
                       st.sampled_from(COEFFICIENTS + (L ** -ALPHA,)))
    recipes = draw(st.integers(1, max_statements).flatmap(lambda n: st.lists(recipe, min_size=n, max_size=n)))
    statements = tuple(_Writer(recipes, vectors, t if looped else None).write())
    branched = any(ALPHA in s.value.free_symbols for s in assignments(statements))
    sizes: dict[sp.Symbol, int] = {T: draw(st.integers(1, max_steps))} if looped else {}
    if branched:
        sizes[L] = draw(st.sampled_from((1, 4, 9)))
    program = Program("drawn", INITIAL[:vectors], tuple(family[0] for family in MATRICES[:matrices]), (), statements,
                      tuple(sizes))
    return ProgramExample(program, sizes, {"alpha": HALF} if branched else {})
