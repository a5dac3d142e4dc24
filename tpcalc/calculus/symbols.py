"""What the symbols of equations stand for, read off the equations themselves."""

from __future__ import annotations

from typing import Iterable, Iterator, Mapping, Sequence

import sympy as sp

from ..derivations.printing import latex
from ..gaussian.variables import Expectation
from ..programs.language import Family, LossDerivative, Matrix, Mean, Member, NonlinearOuter, Outer, Vector
from ..optimizers.polar import Polar
from ..optimizers.spectral import Spectral
from ..training.builders import gradient_name
from .kets import Averaged, Base, Bracket, Covariance, Dot, Gamma, Hat, Ket, Response
from .memory import initial_weight_factor_of, update_response_of
from .setting import Setting

Meaning = tuple[tuple[str, ...], str]  # symbols in LaTeX, and what they are, formulas between dollar signs
ROLES = {"clock": "a training step", "layer": "a layer",
         "visit": "a visit of all layers, or of one", "sample": "a sample of the batch",
         "position": "a position of the sequence", "width": "a coordinate of inputs or of outputs"}
U, V, W = (Family(kind, name) for kind, name in ((Vector, "u"), (Vector, "v"), (Matrix, "W")))
NODES: dict[type, tuple[str, str]] = {
    Ket: (latex(Ket(V())), "the random variable that a coordinate of the vector $v$ becomes at infinite width"),
    Hat: (r"| W v \hat{\rangle}",
          "its part that would be there if $W$ were independent of $v$: Gaussian of mean zero, those of one matrix "
          r"with covariances $\langle v | v' \rangle$, those of other matrices, and of $W$ and $W^\top$, independent"),
    Dot: (r"| W v \dot{\rangle}", "what $v$ owes to $W$ through earlier products with $W^\\top$"),
    Bracket: (latex(Bracket(U(), V())), "the mean of the product of two kets, the limit of $u^\\top v / n$"),
    Expectation: (r"\mathbb{E}", "the mean over kets"),
    Averaged: (r"\mathbb{E}'", "the mean over an independent copy, marked by a prime, of the kets of right vectors"),
    Response: (r"\frac{\partial | v \rangle}{\partial | W u \hat{\rangle}}",
               "the mean derivative of a ket in a base ket: a hat-ket, or an initial vector"),
    Mean: (r"\tfrac{1}{n}\, u \cdot v", "the average over coordinates of the products of entries"),
    Outer: (r"\tfrac{1}{n}\, u \otimes v", "the matrix $u v^\\top / n$"),
    NonlinearOuter: (r"\tfrac{1}{n}\, \phi(u \otimes v)",
                     "the matrix of the function's values at the entries of $u v^\\top$, over $n$"),
    Polar: (r"\operatorname{polar}", "the matrix with its singular values set to 1"),
    LossDerivative: (r"\ell'", "the derivative of the loss of a step in the output"),
    sp.KroneckerDelta: (r"\delta_{a b}", "Kronecker's: 1 where $a = b$, else 0"),
    sp.Heaviside: (r"\theta", "the step: 1 of what is positive, else 0"),
}


def symbols(setting: Setting, values: Iterable[sp.Expr]) -> list[Meaning]:
    """What stands in expressions of a program's derivation, and what it is, each once.

    Raises nothing: what has no entry explains itself, as functions and numbers do. Source: Tensor Programs VI,
    appendices C and E [tensor_programs_vi/definition_c1] [tensor_programs_vi/lemma_c3].

    >>> import tpcalc as tp
    >>> found = tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()))
    >>> for several, words in symbols(found.setting, [e.value for e in found.equations])[:3]:
    ...     print(*several, "|", words)
    U nV | given, with independent entries $\\mathcal{N}(0, 1)$
    W_{0}^{l} | given, with independent entries $\\mathcal{N}(0, 1/n)$
    \\xi_{t} | given, a number
    """
    whole = list(values)
    met = list(dict.fromkeys(node for value in whole for node in sp.preorder_traversal(value)))
    kinds = {type(node) for node in met}
    found: list[tuple[str | tuple[str, ...], str]] = [*_members(setting, met), *_indices(setting, met)]
    found += [meaning for kind, meaning in NODES.items() if any(issubclass(one, kind) for one in kinds)]
    if any(isinstance(node, Spectral) and len(node.now) > 1 for node in met):
        found.append((r"\left([A; B]\right)_1",
                      "the first part of the matrix of $A$ above $B$; with a comma, beside it"))
    found += [one.legend for one in sorted(kinds, key=str) if hasattr(one, "legend")]
    found += _coefficients(setting, met) if kinds & {Gamma, Covariance, Base} else []
    return list(dict.fromkeys(((one,) if isinstance(one, str) else one, words) for one, words in found))


def _members(setting: Setting, met: list[sp.Basic]) -> Iterator[Meaning]:
    """Vectors, matrices and numbers of the program: what is given, and what is a gradient."""
    program = setting.program
    names = {node.name for node in met if isinstance(node, Member)}
    given: tuple[tuple[Sequence[Member], str], ...] = (
        (program.vectors, r"given, with independent entries $\mathcal{N}(0, 1)$"),
        (program.matrices, r"given, with independent entries $\mathcal{N}(0, 1/n)$"),
        (program.data, "given, a number"))
    for members, law in given:
        if here := [latex(one) for one in members if one.name in names]:
            yield tuple(here), law
    targets = (p.statement.target for p in program.locations())
    for matrix in {m.name: m for m in targets if isinstance(m, Matrix)}.values():
        steps = (setting.time,), (setting.time, setting.past)
        remembered = [family(matrix)[at] for family, at in zip((initial_weight_factor_of, update_response_of), steps)]
        if factors := tuple(latex(one) for one in remembered if one.name in names):
            starts = ("at step $0$ they are $1$ and $0$" if any(matrix.same_family(m) for m in program.matrices)
                      else "what no equation says of step $0$ is $0$")
            yield factors, (f"the factors with which the initial matrix and the outer products of step "
                            f"${setting.past}$ stand in ${latex(matrix.at())}$ at step ${setting.time}$; {starts}")
    forward = {v.name: v.at() for v in setting.families}
    named = [name for name in forward if name in names and _is_gradient(forward, name)]
    if gradients := [forward[name] for name in named]:
        of = ", ".join(f"${latex(forward[v.name[1:]])}$" for v in gradients)
        yield tuple(map(latex, gradients)), (
            f"the gradient{'s' * (len(gradients) > 1)} in {of}, times $n$, without the branch multiplier; this "
            r"$\delta$ is no Kronecker delta")


def _is_gradient(forward: Mapping[str, sp.Expr], name: str) -> bool:
    """Is the vector the one that builders write for the gradient of another? A program may call any vector dx."""
    of = forward.get(name.removeprefix("d"))
    return of is not None and of.name != name and gradient_name(of).args[:3] == forward[name].args[:3]


def _indices(setting: Setting, met: list[sp.Basic]) -> Iterator[tuple[str | tuple[str, ...], str]]:
    program, free = setting.program, {node for node in met if isinstance(node, sp.Symbol)}
    past = {index for node in met if isinstance(node, sp.Sum) for index, _, last in node.limits
            if {setting.time, setting.past} & last.free_symbols} - {setting.time}
    for index, role in program.index_roles().items():
        if index in free:
            yield sp.latex(index), "a step up to that one" if index in past else ROLES[role]
        others = sorted((one for one in free if one.name.rstrip("'") == index.name != one.name), key=str)
        if role == "sample" and others:
            yield tuple(map(sp.latex, others)), "other samples, of that step or another one"
    if setting.past in free:
        yield sp.latex(setting.past), "an earlier training step"
    for symbol, meaning in program.meaning.items():
        if symbol in free:
            yield sp.latex(symbol), meaning.removeprefix("is ")


def _coefficients(setting: Setting, met: list[sp.Basic]) -> Iterator[tuple[str, str]]:
    """Gamma and C, and what their numbers a and b stand for."""
    vectors = ", ".join(rf"{number}: ${latex(v.at())}$" for number, v in enumerate(setting.families))
    hats = ", ".join(rf"{p.number}: ${latex(Hat(p.matvec))}$" for p in setting.products)
    initial = ", ".join(rf"{number}: ${latex(Ket(v))}$" for number, v in enumerate(setting.program.vectors))
    if any(isinstance(node, Gamma) for node in met):
        yield (r"\Gamma_{t,r,a,b}\left(\tfrac{l}{L},\tfrac{m}{L}\right)",
               r"the coefficient, times $\sqrt{L}$, of base ket $b$ of step $r$ and layer $m$ in vector $a$ of step "
               "$t$ and layer $l$; of step $r = -1$, which stands for initial vectors, the coefficient itself")
        yield "a", f"the number of a vector: {vectors}"
    if any(isinstance(node, Covariance) for node in met):
        yield r"C_{t,s,b}\left(\tfrac{l}{L}\right)", "the covariance of hat-kets $b$ of steps $t$ and $s$ in layer $l$"
    yield "b", f"the number of a base ket: {hats}; of step $-1$ {initial}"
    yield "r, r'", "steps of base kets, no learning rates"
