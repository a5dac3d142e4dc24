"""Readouts that act on an activation of the last layer: the program of such a training, from that of another."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable

import sympy as sp

from .._checks import instance, short
from ..errors import NotCovered
from ..models.activations import activation, require_finite
from ..programs.backprop import backpropagate
from ..programs.blocks import vector
from .builders import UNIT, gradient_name
from ..programs.indices import POSITIONS, L, l
from ..programs.language import Family, Scalar, Vector
from ..programs.program import Assign, Loop, Program, Statement, assignments, mapped

STREAM, GRADIENT = vector("x"), vector("dx")
READ, SIGNAL = Family(Vector, "r"), Family(Vector, "dr", r"\delta r")


def read_through(program: Program, phi: sp.Expr | str) -> Program:
    """The training of a tp.ResNet with the readout f = V^T phi(x^L) in the place of V^T x^L.

    The backward pass through phi is derived, and a readout that is trained moves by phi(x^L). Real networks, particles
    and common draws take the result; ``tp.kernel_fn`` has its lazy limit as ``readout``.

    phi: as in ``tp.ResNet``. Raises ``ValueError`` for functions that are not finite, and for programs that are not
    those of ``tp.program`` of a tp.ResNet, or have such a readout. Source: Depthwise Hyperparameter Transfer, (1)
    [depthwise_transfer/parametrization].

    >>> import tpcalc as tp
    >>> from tpcalc.training.read_through import read_through
    >>> program = tp.program(tp.ResNet("relu", "pre_nonlin"), tp.SGD(1.0), tp.DepthScaling())
    >>> lines = [line.strip() for line in str(read_through(program, "relu")).splitlines()]
    >>> print(*(line for line in lines if line.startswith(("r[t] :=", "f[t]", "dx[t, L]"))), sep="\\n")
    r[t] := Max(0, x[t, L])
    f[t] := mean(nV*r[t])
    dx[t, L] := Heaviside(x[t, L])*dr[t]
    """
    instance("program", program, Program)
    require_finite(phi)
    function, found = activation(phi), {READ: 0, SIGNAL: 0}

    def change(one: Assign) -> Iterable[Statement]:
        if not _is_last(one.target, GRADIENT):
            return [replace(one, value=one.value.replace(lambda e: _is_last(e, STREAM), _read))]
        found[SIGNAL] += 1
        end, sample = STREAM[one.target.indices], one.target.indices[:-1]
        read, signal = READ[sample], SIGNAL[sample]
        back = backpropagate([Assign(read, function(end))], {read: signal}, [end], gradient_name, UNIT)
        return [Assign(signal, one.value), *back.statements]

    def around(loop: Loop, body: tuple[Statement, ...]) -> Iterable[Statement]:
        yield replace(loop, body=body)
        for one in body if loop.last == L else ():
            if isinstance(one, Assign) and one.target.same_family(STREAM[loop.index]):
                found[READ] += 1
                end = one.target.xreplace({loop.index: L})
                yield Assign(_read(end), function(end))

    body = tuple(mapped(program.body, change, around))
    if POSITIONS in program.sizes or any(number != 1 for number in found.values()) or _reads(program) or (
            _reads_several(program)):
        raise NotCovered(f"program: got {short(program.name)}; expected those that tp.program writes of a "
                         "tp.ResNet, whose readout acts on the stream")
    return replace(program, name=f"{program.name}, read through {short(phi)}", body=body)


def _is_last(one: sp.Basic, family: Family) -> bool:
    """Is it a member of the family at the last layer?"""
    return isinstance(one, Vector) and one.same_family(family[l]) and one.indices[-1:] == (L,)


def _read(end: Vector) -> Vector:
    found: Vector = READ[end.indices[:-1]]
    return found


def _reads_several(program: Program) -> bool:
    """Do outputs read other streams of the last layer beside x?"""
    return any(v.indices[-1:] == (L,) and not v.same_family(STREAM[l]) for one in assignments(program.body)
               if isinstance(one.target, Scalar) for v in one.value.atoms(Vector))


def _reads(program: Program) -> bool:
    """Has the program such a readout already?"""
    return any(one.target.same_family(READ[l]) for one in assignments(program.body))
