"""What the rules may ask of a program: its families, the products with initial matrices, and their order."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy as sp

from ..programs.language import Mat, MatVec, Transpose, Vec
from ..programs.program import Place, Program


@dataclass(frozen=True)
class Product:
    """A product W v that the program makes, with W an initial matrix or its transpose; number b of the base kets."""

    number: int
    matvec: MatVec
    place: Place

    @property
    def layer(self) -> sp.Expr:
        """The index of its matrix that is not the training step."""
        return initial_matrix(self.matvec.matrix).indices[-1]


def initial_matrix(matrix: sp.Expr) -> Mat:
    """The matrix itself, with a transpose taken off."""
    return matrix.args[0] if isinstance(matrix, Transpose) else matrix


def is_initial(matrix: sp.Expr) -> bool:
    """Is this W_0 or its transpose?"""
    bare = initial_matrix(matrix)
    return isinstance(bare, Mat) and bare.indices[0] == 0


@dataclass(frozen=True)
class Setting:
    """A program as the rules see it.

    time: the index of the outermost loop; updates: for every matrix family its unrolled value
    W_t = W_0 - sum; families: representatives of the vector families in order of assignment, number a of
    their coefficients; products: products with initial matrices, number b of their hat-kets.
    """

    program: Program
    time: sp.Symbol
    families: tuple[Vec, ...]
    products: tuple[Product, ...]
    past: sp.Symbol = field(default=sp.Symbol("s", integer=True, nonnegative=True))

    @classmethod
    def of(cls, program: Program) -> "Setting":
        places = program.places()
        clocks = {place.indices[0] for place in places if place.indices}
        if len(clocks) != 1:
            raise ValueError(f"program {program.name}: one outermost loop over training steps is needed, found "
                             f"{clocks or 'none'}")
        families: list[Vec] = []
        products: list[Product] = []
        for place in places:
            target = place.statement.target
            if isinstance(target, Vec) and not any(target.same_family(v) for v in families):
                families.append(target)
            for matvec in sorted(place.statement.value.atoms(MatVec), key=sp.default_sort_key):
                products.append(Product(len(products), at_start(matvec), place))
        return cls(program, clocks.pop(), tuple(families), tuple(products))

    def update(self, matrix: Mat) -> Place | None:
        """The statement that updates the family of ``matrix``, if the program has one."""
        for place in self.program.places():
            if matrix.same_family(place.statement.target):
                return place
        return None

    def trained(self) -> list[Mat]:
        """One member W_t, at symbolic step, of every matrix family that is updated."""
        targets = [place.statement.target for place in self.program.places()]
        return [m.at(self.time, *m.indices[1:]) for m in targets if isinstance(m, Mat)]

    def family_number(self, vector: Vec) -> int:
        return next(i for i, v in enumerate(self.families) if v.same_family(vector))

    def initial_number(self, vector: Vec) -> int | None:
        """Position of an initial vector among the program's, or None."""
        return self.program.vectors.index(vector) if vector in self.program.vectors else None

    def product_like(self, matvec: MatVec) -> tuple[Product, sp.Expr, sp.Expr]:
        """(product, step, layer): which of the program's products ``matvec`` is, and at which indices."""
        for product in self.products:
            known = product.matvec
            if isinstance(known.matrix, Transpose) != isinstance(matvec.matrix, Transpose):
                continue
            if (initial_matrix(known.matrix).same_family(initial_matrix(matvec.matrix))
                    and known.vector.same_family(matvec.vector)):
                return product, matvec.vector.indices[0], initial_matrix(matvec.matrix).indices[-1]
        raise ValueError(f"{matvec} is none of the program's products")


def at_start(matvec: MatVec) -> MatVec:
    """W_t y -> W_0 y."""
    bare = initial_matrix(matvec.matrix)
    first = bare.at(0, *bare.indices[1:])
    return MatVec(Transpose(first) if isinstance(matvec.matrix, Transpose) else first, matvec.vector)
