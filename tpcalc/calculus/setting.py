"""What the rules may ask of a program: its families, the products with initial matrices, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, count

import sympy as sp

from .._shown import Short
from ..errors import NotCovered
from ..programs.language import Matrix, MatVec, Member, OfFamily, Transpose, Vector
from ..programs.special import require_no_choice
from ..programs.program import Loop, Location, Program


EARLIER = "s"  # the name of an earlier step; s_0, s_00, ... where a program has it


@dataclass(frozen=True)
class Product:
    """A product W v that the program makes, with W an initial matrix or its transpose.

    number: b of its hat-kets; below: its step and samples, above: its layers, as the indices of those of its
    loops that it depends on.
    """

    number: int
    matvec: MatVec
    location: Location
    below: sp.Tuple
    above: sp.Tuple

    @property
    def matrix(self) -> Matrix:
        matrix: Matrix = self.matvec.matrix.member
        return matrix

    @property
    def transposed(self) -> bool:
        turned: bool = self.matvec.matrix.turned
        return turned

    @property
    def indices(self) -> tuple[sp.Expr, ...]:
        return (*self.below, *self.above)

    def same_group(self, other: "Product") -> bool:
        """Do the hat-kets of both correlate: one family of matrices, one orientation?"""
        return self.matrix.same_family(other.matrix) and self.transposed == other.transposed

    def indices_of(self, vector: Vector) -> dict[sp.Symbol, sp.Expr] | None:
        """Where ``vector`` is what the product multiplies: values of its loops' indices, None if unclear.

        Symbols alone: at t - 1 or l + 1 the product need not have been made.
        """
        unknowns = {i for i in self.indices if i.is_Symbol}
        found = solve_indices(self.matvec.vector.indices, vector.indices, unknowns)
        made = found is not None and set(found) == unknowns and all(value.is_Symbol for value in found.values())
        return found if made else None


def solve_indices(pattern: tuple[sp.Expr, ...], values: tuple[sp.Expr, ...], unknowns: set[sp.Symbol]
                  ) -> dict[sp.Symbol, sp.Expr] | None:
    """Values of ``unknowns`` at which ``pattern`` (each index affine in one unknown) equals ``values``, or None."""
    found: dict[sp.Symbol, sp.Expr] = {}
    for index, value in zip(pattern, values):
        free = index.free_symbols & unknowns
        if not free:
            if sp.expand(index - value) != 0:
                return None
            continue
        symbol, = free
        solution = sp.expand(value - (index - symbol))  # indices are a loop's variable and a shift
        if found.setdefault(symbol, solution) != solution:
            return None
    return found


def past_of(program: Program) -> sp.Symbol:
    """The symbol of an earlier step: none of the program's."""
    inside = (one.statement.value.free_symbols for one in program.locations())
    names = (EARLIER + "_" * (zeros > 0) + "0" * zeros for zeros in count())
    taken = {str(symbol) for symbol in set().union(program.sizes, program.index_roles(), *inside)}
    return sp.Symbol(next(name for name in names if name not in taken), integer=True, nonnegative=True)


@dataclass(frozen=True, repr=False)
class Setting(Short):
    """A program as the rules see it.

    clock: the loop over training steps, None for a program without; time: its index (a symbol that stands for
    the only step where there is no loop); families: representatives of the vector families in order of
    assignment, number a of their coefficients; products: products with initial matrices, number b of their
    hat-kets; depth: the size that layers run over, or None.
    """

    program: Program
    clock: Loop | None
    time: sp.Symbol
    families: tuple[Vector, ...]
    products: tuple[Product, ...]
    depth: sp.Symbol | None

    @cached_property
    def past(self) -> sp.Symbol:
        """An earlier step, s, or another letter where the program has an s of its own."""
        return past_of(self.program)

    @classmethod
    def of(cls, program: Program) -> "Setting":
        locations = program.locations()
        require_no_choice(f"program {program.name}", (one.statement for one in locations), of_vectors=True)
        clock = program.clock()
        time = clock.index if clock is not None else sp.Symbol("t", integer=True, nonnegative=True)
        layers = program.layers
        _require_clock(program, clock, locations)
        families: list[Vector] = []
        products: list[Product] = []
        for location in locations:
            target = location.statement.target
            if isinstance(target, Vector) and not any(target.same_family(v) for v in families):
                families.append(target)
            for matvec in sorted(location.statement.value.atoms(MatVec), key=sp.default_sort_key):
                inside = clock is not None and clock in location.loops
                if clock is not None and not inside:
                    raise NotCovered(f"program {program.name}: {target} := {location.statement.value} multiplies by a "
                                     "matrix outside the loop over training steps; products belong inside")
                if _begins_at_zero(program, matvec.matrix.member):
                    continue  # it is outer products alone
                start = _at_start(program, clock, matvec)
                known = next((known for known in products if known.matvec == start), None)
                if known is not None:
                    _require_one_range(program, known, location)
                    continue
                seen = start.free_symbols  # a product that a loop repeats unchanged is made once
                indices = [i for i in location.indices if i != time and i in seen]
                first = clock.first if clock is not None else sp.Integer(0)
                below = sp.Tuple(time if inside and time in seen else first, *(i for i in indices if i not in layers))
                above = sp.Tuple(*(i for i in indices if i in layers))
                products.append(Product(len(products), start, location, below, above))
        _require_one_form(program, products)
        return cls(program, clock, time, tuple(families), tuple(products), _depth(locations, layers, program))

    def updates(self, matrix: Matrix) -> list[Location]:
        """The statements that assign members of the family of ``matrix``."""
        return [p for p in self.program.locations() if matrix.same_family(p.statement.target)]

    def trained(self) -> list[Matrix]:
        """One member W_t, at symbolic step, of every family of matrices that products meet and updates change."""
        found: list[Matrix] = []
        for matrix in (*(product.matrix for product in self.products), *self.from_zero()):
            location = next(iter(self.updates(matrix)), None)
            if location is not None and not any(matrix.same_family(m) for m in found):
                found.append(self.member(matrix, self.time, self.others(matrix)))
        return found

    def from_zero(self) -> dict[Matrix, Location]:
        """Matrices that start at 0 and are met by products: nothing but outer products; each with where it is met."""
        found: dict[Matrix, Location] = {}
        for location in self.program.locations():
            for matvec in sorted(location.statement.value.atoms(MatVec), key=sp.default_sort_key):
                matrix = matvec.matrix.member
                if isinstance(matrix, Matrix) and _begins_at_zero(self.program, matrix):
                    found.setdefault(matrix, location)
        return found

    def is_initial(self, matrix: sp.Expr) -> bool:
        """Is this one of the program's initial matrices, or its transpose?"""
        bare = matrix.member
        return any(m.same_family(bare) and (len(m.indices) == 0 or self.step_index(m) == self.step_index(bare)
                                            or not self.updates(bare)) for m in self.program.matrices)

    def slot(self, member: Member) -> int:
        """The place of the training step among a member's indices."""
        if member.family_key not in self._slots:
            self._slots[member.family_key] = clock_slot(self.program, self.clock, member)
        return self._slots[member.family_key]

    @cached_property
    def _slots(self) -> dict[tuple[object, ...], int]:
        return {}

    def step_index(self, member: Member) -> sp.Expr:
        """The training step of a member of a family that the loop over steps assigns."""
        return member.indices[self.slot(member)]

    def others(self, member: Member) -> tuple[sp.Expr, ...]:
        """Its indices beside the step."""
        slot = self.slot(member)
        return (*member.indices[:slot], *member.indices[slot + 1:])

    def member(self, like: OfFamily, step: sp.Expr, others: tuple[sp.Expr, ...]) -> OfFamily:
        """The member of a family at a step and the other indices."""
        slot = self.slot(like)
        return like.at(*others[:slot], step, *others[slot:])

    def family_number(self, vector: Vector) -> int:
        number = self._numbers.get(vector.family_key)
        if number is None:
            raise ValueError(f"{vector} is neither an initial vector nor assigned")
        return number

    @cached_property
    def _numbers(self) -> dict[tuple[object, ...], int]:
        return {v.family_key: i for i, v in reversed([*enumerate(self.families)])}

    def initial_number(self, vector: Vector) -> int | None:
        """Position of an initial vector, or of its family's, among the program's, or None."""
        for number, v in enumerate(self.program.vectors):
            if v.same_family(vector) and all(a == b for a, b in zip(v.indices, vector.indices) if a.is_number):
                return number
        return None

    def step(self, vector: Vector) -> sp.Expr:
        """The training step of a vector: its first index, where its family is assigned inside the loop."""
        if self.clock is None or not vector.indices or vector.family_key not in self._families_in_time:
            return self.time
        return self.step_index(vector)

    @cached_property
    def _families_in_time(self) -> frozenset[tuple[object, ...]]:
        return frozenset(p.statement.target.family_key for p in self.program.locations() if self.clock in p.loops)

    def product_like(self, matvec: MatVec) -> tuple[Product, dict[sp.Expr, sp.Expr]]:
        """(product, substitution of its loops' indices): which of the program's products ``matvec`` is.

        Where one matrix multiplies x[t] and x[t - 1], two products make the same vectors, one step apart. Each has
        names of its own for their hats: the one that is written without a shift is meant.
        """
        if matvec not in self._products_like:
            self._products_like[matvec] = self._product_like(matvec)
        number, values = self._products_like[matvec]
        return self.products[number], values

    @cached_property
    def _products_like(self) -> dict[MatVec, tuple[int, dict[sp.Expr, sp.Expr]]]:
        return {}

    def _product_like(self, matvec: MatVec) -> tuple[int, dict[sp.Expr, sp.Expr]]:
        fits = []
        for product in self.products:
            known = product.matvec
            if (product.transposed != matvec.matrix.turned or not product.matrix.same_family(matvec.matrix.member)
                    or not known.vector.same_family(matvec.vector)):
                continue
            unknowns = {i for i in product.indices if i.is_Symbol}
            found = solve_indices((*product.matrix.indices, *known.vector.indices),
                                  (*matvec.matrix.member.indices, *matvec.vector.indices), unknowns)
            if found is not None:
                fits.append((sum(not value.is_Symbol for value in found.values()), product.number, found))
        if not fits:
            raise ValueError(f"{matvec} is none of the program's products")
        _, number, values = min(fits, key=lambda fit: fit[:2])
        return number, values


def clock_slot(program: Program, clock: Loop | None, member: Member) -> int:
    """The place of the clock among a member's indices, from the statements that assign its family; 0 without any."""
    for location in program.locations():
        if clock in location.loops and member.same_family(location.statement.target):
            for slot, index in enumerate(location.statement.target.indices):
                if clock is not None and clock.index in index.free_symbols:
                    return slot
    return 0


def _require_clock(program: Program, clock: Loop | None, locations: list[Location]) -> None:
    """Raise ``NotCovered`` for matrices trained in a loop that is not known to be the clock, and for vectors whose
    step is not their first index."""
    for location in locations:
        target = location.statement.target
        if clock is None and location.loops and isinstance(target, Matrix):
            raise NotCovered(f"program {program.name}: {target} := ... is an update in a loop, and no loop is the "
                             f"clock; say which one is, with roles={{{location.loops[0].index}: 'clock'}}, or let it "
                             "run to the first size")
        if not isinstance(target, Matrix) and target.indices and clock_slot(program, clock, target):
            raise NotCovered(f"program {program.name}: {target} has the clock at another place than its first index; "
                             "expected the first, for vectors and scalars")


def _require_one_range(program: Program, made: Product, location: Location) -> None:
    """Raise ``ValueError`` where a product stands in two loops that run over different indices."""
    there, here = ({loop.index: {loop.first, loop.last} for loop in loops if loop.index in made.indices}
                   for loops in (made.location.loops, location.loops))
    if there != here:
        ranges = (", ".join(f"{i} between {' and '.join(map(str, sorted(ends, key=str)))}" for i, ends in one.items())
                  for one in (there, here))
        raise NotCovered(f"program {program.name}: {made.matvec} is made for {' and for '.join(ranges)}; expected "
                         "one loop over all of them")


def _require_one_form(program: Program, products: list[Product]) -> None:
    """Raise ``ValueError`` where one product meets a single member of a family that another one runs through."""
    loops = {i for location in program.locations() for i in location.indices}
    for one, other in combinations(products, 2):
        if one.matrix.same_family(other.matrix) and any(
                bool(i.free_symbols & loops) != bool(j.free_symbols & loops)
                for i, j in zip(one.matrix.indices, other.matrix.indices)):
            raise NotCovered(f"program {program.name}: {one.matvec} and {other.matvec} meet a single member and a "
                             "loop's members of one family of matrices; expected products with all of them in "
                             "loops, or with single members alone")


def _begins_at_zero(program: Program, matrix: Matrix) -> bool:
    """Has the family no initial member, and is it assigned 0 before it is updated?"""
    clock = program.clock()
    values = [p.statement.value for p in program.locations() if matrix.same_family(p.statement.target)
              and clock is not None and clock not in p.loops]
    return bool(values) and all(value == 0 for value in values) and not any(
        matrix.same_family(m) for m in program.matrices)


def _at_start(program: Program, clock: Loop | None, matvec: MatVec) -> MatVec:
    """W_t y -> W_0 y."""
    bare = matvec.matrix.member
    given = next((m for m in program.matrices if m.same_family(bare)), None)
    if given is None:
        raise NotCovered(f"program {program.name}: {matvec} multiplies by {bare}, whose family has no initial member")
    slot = clock_slot(program, clock, bare)
    at_start = given.indices and given.indices[slot].is_number
    first = bare.at(*bare.indices[:slot], given.indices[slot], *bare.indices[slot + 1:]) if at_start else bare
    product: MatVec = MatVec(Transpose(first) if matvec.matrix.turned else first, matvec.vector)
    return product


def _depth(locations: list[Location], layers: frozenset[sp.Symbol], program: Program) -> sp.Symbol | None:
    """The size that the layers' loops run over; None without layers."""
    loops = [loop for location in locations for loop in location.loops if loop.index in layers]
    sizes = {s for loop in loops for s in loop.first.free_symbols | loop.last.free_symbols} & set(program.sizes)
    if len(sizes) > 1:
        raise NotCovered(f"program {program.name}: the layers run over {sizes}; expected one depth")
    return sizes.pop() if sizes else None
