"""What a parameter does in a residual network: how its shape grows tells it, its name where shapes cannot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Iterable, Mapping

from ..tune.factors import is_last
from ..tune.parameters import Parameter, ParameterGrowth
from .names import LayerCount, Shape, find_layers, growth_of_most, shapes_of

LAST_OF_BRANCH = set("c_proj o_proj out_proj proj_out proj wo w_o down_proj down fc2 linear2 lin2 fc_out "
                     "dense_4h_to_h to_out w_out out_lin".split())  # what the last matrix of a branch is called
NORMS = re.compile(r"(norm|^ln|_ln|ln_|^bn|^n\d+$)", re.I)
INPUTS = re.compile(r"(emb|wte|wpe|tok|pos|patch|cls|read_?in|input|stem|^in$)", re.I)
POSITIONS = re.compile(r"(^|[._])(pos(ition(s|al)?)?|cls)(_[^.]*)?$", re.I)  # is added as it is, and is no module's
OUTPUTS = re.compile(r"(head|unemb|read_?out|output|classif|logits|decoder|^out$|^fc$)", re.I)
MATRIX_NAMES = re.compile(r"(weight|kernel|^w[a-z0-9_]{0,4}$)", re.I)
STRANGE = re.compile(r"(router|expert|moe|switch|lora|layer_?scale|^ls\d*$|rezero|(resid|skip)\w*(lambda|scale|alpha))",
                     re.I)
NOT_UNDERSTOOD = "expected embeddings, matrices, gains of norms, biases and a head, of residual networks"


@dataclass(frozen=True)
class Roles:
    """The parameters of a model by their roles. layers: what counts depth; width: the target's over the base's."""

    layers: LayerCount
    width: float
    parameters: tuple[Parameter, ...]

    @property
    def stays(self) -> bool:
        """Has the stream one width, which is n, as where experts or hidden layers alone grow?"""
        return {one.use.fan_out for one in self.parameters if is_last(one) and one.is_matrix} == {1}


def find_roles(base: Mapping[str, Shape], target: Mapping[str, Shape],
               ties: Iterable[tuple[str, ...]] = ()) -> Roles:
    """The role of every parameter of a residual network, from names and shapes at two sizes.

    Parameters
    ----------
    base, target:
        name -> shape of every parameter, in the order in which the model has them. Numbers of which the target has more
        count layers; dimensions that grow are the width.
    ties:
        names of one parameter that has several; an embedding that is also the head is "tied".

    Raises ``ValueError`` naming the parameter that is not understood: routers and experts, learned multipliers of
    branches, convolutions in layers, dimensions that grow by different factors.

    >>> small = {"emb.weight": (65, 8), "h.0.fc.weight": (32, 8), "h.0.proj.weight": (8, 32), "head.weight": (65, 8)}
    >>> large = {"emb.weight": (65, 8), **{f"h.{l}.{k}": s for l in range(4) for k, s in (
    ...     ("fc.weight", (32, 8)), ("proj.weight", (8, 32)))}, "head.weight": (65, 8)}
    >>> found = find_roles(small, large)
    >>> found.layers.multiplier, [(p.pattern, p.role) for p in found.parameters][1:]
    (4.0, [('h.*.fc.weight', 'hidden'), ('h.*.proj.weight', 'branch output'), ('head.weight', 'output')])
    """
    before, after = shapes_of("base", base), shapes_of("target", target)
    layers = find_layers(before, after)
    by_pattern: dict[str, list[str]] = {}
    for name in after:
        by_pattern.setdefault(layers.pattern(name), []).append(name)
    old = {layers.pattern(name): shape for name, shape in before.items()}
    growth = {pattern: _growth(pattern, old[pattern], after[names[0]]) for pattern, names in by_pattern.items()}
    width = growth_of_most(chain(*growth.values()))
    order = list(by_pattern)
    inside = [layers.index(by_pattern[pattern][0]) >= 0 for pattern in order]
    tied = {layers.pattern(name): others for others in ties for name in others}
    last = _last_matrices([p for p, within in zip(order, inside) if within],
                          {p: after[by_pattern[p][0]] for p in order})
    found = []
    for i, pattern in enumerate(order):
        shape, ratios = after[by_pattern[pattern][0]], growth[pattern]
        role = _in_layers(pattern, shape, last) if inside[i] else _outside(
            pattern, shape, ratios, not any(inside[:i]), tied.get(pattern, ()), width)
        of_output = pattern in last or role == "bias" and not inside[i] and max(ratios, default=1) == 1
        _require_one_width(pattern, role, inside[i], ratios, width)
        head = next((name for name in tied.get(pattern, ()) if OUTPUTS.search(name)), None) if role == "tied" else None
        found.append(Parameter(pattern, role, inside[i], shape, max(ratios, default=1.0), tuple(by_pattern[pattern]),
                               tuple(ratio != 1 for ratio in ratios), of_output,
                               None if head is None else head.rpartition(".")[0],
                               use=_use(pattern, role, max(ratios, default=1.0), layers.multiplier)))
    return Roles(layers, width, tuple(found))


def _use(pattern: str, role: str, grown: float, depth: float) -> ParameterGrowth:
    """Fan-out of embeddings and vectors grows, fan-in of a head, and both of matrices between."""
    reads, makes = role in ("hidden", "branch output", "output", "tied"), role != "output"
    return ParameterGrowth(grown if reads else 1.0, grown if makes else 1.0, depth,
                           by_itself=role == "input" and bool(POSITIONS.search(pattern)))


def _growth(pattern: str, base: Shape, target: Shape) -> tuple[float, ...]:
    if len(base) != len(target):
        raise ValueError(f"{pattern}: got shapes {base} and {target}; expected as many dimensions in both")
    return tuple(b / a for a, b in zip(base, target))


def _last_matrices(patterns: list[str], shapes: Mapping[str, Shape]) -> set[str]:
    """Patterns of the last matrix of every branch, with its bias: by name, by shape (..., wider) back to the stream, or
    as the last one that there is."""
    branches: dict[str, list[str]] = {}
    for pattern in patterns:
        module, _, leaf = pattern.rpartition(".")
        if len(_squeezed(shapes[pattern])) == 2:
            branch = module.rpartition(".")[0] if leaf in ("weight", "kernel") else module
            branches.setdefault(branch, []).append(pattern)
    last: set[str] = set()
    for matrices in branches.values():
        named = [p for p in matrices if {_part(p, -1), _part(p, -2)} & LAST_OF_BRANCH]
        narrowing = [p for p in matrices if shapes[p][0] < shapes[p][1]]
        last |= set(named or (narrowing if len(matrices) > len(narrowing) else []) or matrices[-1:])
    biases = {p for p in patterns if len(_squeezed(shapes[p])) == 1 and _part(p, -1) in ("bias", "b") and any(
        one.rpartition(".")[0] == p.rpartition(".")[0] and _part(one, -1) in ("weight", "kernel", "w") for one in last)}
    return last | biases


def _in_layers(pattern: str, shape: Shape, last: set[str]) -> str:
    leaf, sizes = _part(pattern, -1), _squeezed(shape)
    if any(STRANGE.search(part) for part in pattern.split(".")) or not sizes or len(shape) > 2:
        raise ValueError(f"{pattern}: of shape {shape}, not understood; {NOT_UNDERSTOOD}")
    if len(sizes) == 1:
        return _vector(pattern, leaf)
    module = _part(pattern, -2)
    if not MATRIX_NAMES.search(leaf) or INPUTS.search(module) and module not in LAST_OF_BRANCH or (
            _part(pattern, -2) in ("gate", "wg") and 4 * sizes[0] < sizes[1]):
        raise ValueError(f"{pattern}: of shape {shape}, not understood in a layer; {NOT_UNDERSTOOD}")
    return "branch output" if pattern in last else "hidden"


def _vector(pattern: str, leaf: str) -> str:
    if leaf.endswith("bias") or leaf in ("b", "beta"):
        return "bias"
    if leaf in ("weight", "gain", "g", "gamma", "scale") or NORMS.search(leaf):
        return "gain"
    raise ValueError(f"{pattern}: a vector that is no gain and no bias, not understood; {NOT_UNDERSTOOD}")


def _outside(pattern: str, shape: Shape, ratios: tuple[float, ...], first: bool, ties: tuple[str, ...],
             width: float) -> str:
    sizes = shape if shape == (1,) and _part(pattern, -1) == "bias" else _squeezed(shape)  # of a head of one output
    if any(STRANGE.search(part) for part in pattern.split(".")) or not sizes:
        raise ValueError(f"{pattern}: of shape {shape}, not understood; {NOT_UNDERSTOOD}")
    if len(sizes) == 1:
        module = _part(pattern, -2)
        is_input = INPUTS.search(_part(pattern, -1)) and not _part(pattern, -1).endswith("bias")
        return "input" if is_input and not NORMS.search(module) else _vector(pattern, _part(pattern, -1))
    parts = pattern.split(".") if len(pattern.split(".")) < 2 else pattern.split(".")[:-1]
    named = [any(words.search(part) for part in parts) for words in (INPUTS, OUTPUTS)]
    if len(ties) > 1:
        return "tied"
    grown = [ratio != 1 for ratio in ratios]
    if width != 1 and len(sizes) == 2 and all(grown):
        return "hidden"
    if width != 1 and grown[0] and len(ratios) >= 2 and not any(grown[1:]):
        return "input"  # a matrix from inputs of a fixed size
    if width != 1 and named[0] == named[1]:
        raise ValueError(f"{pattern}: of shape {shape}, an embedding or a head by its shape, which its name does not "
                         "tell; expected names with emb, in or head, out in them")
    return "input" if named[0] and not named[1] or named[0] == named[1] and first else "output"


def _require_one_width(pattern: str, role: str, inside: bool, ratios: tuple[float, ...], width: float) -> None:
    """Raise ``ValueError`` where a dimension of a parameter grows by another factor than the width: no power of the
    width says what to set then.

    ratios: by how much each dimension grows; width: by how much the width grows; inside: is the parameter in a layer?
    Rows of a matrix may grow less, as those of keys that heads share, and so may biases in layers.
    """
    if role in ("gain", "bias", "input") or width == 1:
        odd = [ratio for ratio in ratios if ratio not in (1, width)]
        if odd and not (role == "bias" and inside and min(1, width) <= odd[0] <= max(1, width)):
            raise ValueError(f"{pattern}: a dimension grows by {odd[0]:g} and the width by {width:g}; expected one "
                             "factor for all")
        return
    if len(ratios) == 2 and (ratios[1] != width or not min(1, width) <= ratios[0] <= max(1, width)) and role != "tied":
        raise ValueError(f"{pattern}: dimensions grow by {ratios[0]:g} and {ratios[1]:g}, the width by {width:g}; "
                         "expected one factor for all, but for rows of heads that are shared")


def _squeezed(shape: Shape) -> Shape:
    """The shape without the axes of length 1 that broadcast; a matrix stays one, and a number has no shape."""
    if prod(shape) == 1 and len(shape) < 2:
        return ()
    return shape if len(shape) <= 2 else tuple(n for n in shape if n != 1)


def _part(pattern: str, i: int) -> str:
    parts = pattern.split(".")
    return parts[i] if len(parts) >= -i else ""
