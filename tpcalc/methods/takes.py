"""What every method takes, as a table over traits of problems: refusals, and the documents, are made of it.

Fluctuations decide at infinite width between numbers that tie, in averages that a few coordinates make, and in steps of
a router, whose gradient vanishes, where their size does not follow it: such problems are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Callable, Iterator

import sympy as sp

from .. import _checks
from .._checks import short
from .._shown import Short, Tabled
from ..errors import NotCovered
from ..optimizers.sgd import on_sphere
from ..optimizers.sign_ambiguity import depends_on_sign
from ..optimizers.updates import kind_of_updates, unclipped
from ..programs.language import Mean
from ..programs.special import require_light_tails, require_no_choice, require_no_ties
from ..propagators.muon import mixes
from ..scaling import DepthScaling
from ..training.problem import Problem
from .normalized import FELT, FLUCTUATION


def require_decided(problem: Problem) -> None:
    """Raise ``NotCovered`` for a network and an optimizer whose limit fluctuations would decide, naming what they do.

    A number that a trained vector reads off others is 0 at infinite width until training has made the two overlap, and
    so is the number that the vector's gradient is made of: real networks have fluctuations of order n^(-1/2) there.
    """
    net, opt = problem.net, unclipped(problem.opt)
    what = f"net: got {short(net)}"
    require_no_choice(what, net.statements, of_vectors=problem.layers is None)
    require_no_ties(what, net.statements, net.readouts_of_block)
    if any(one.value.has(Mean) for one in net.statements):
        require_light_tails(what, net.statements)
    if not net.readouts_of_block or kind_of_updates(opt) == "linear":
        return
    if depends_on_sign(opt, FLUCTUATION) > FELT:
        raise NotCovered(f"opt: got {short(problem.opt)} for {', '.join(net.readouts_of_block)}, which read numbers "
                         "off vectors; their first gradients vanish at infinite width, and fluctuations have the "
                         "signs of their first steps; expected a tp.SGD, an eps that is felt, or a finite width")


UPDATES = {
    "linear": "a tp.SGD", "orthogonal": "a tp.Muon",
    "spectral": "other functions of whole matrices (tp.Shampoo, tp.SOAP)",
    "normalized": "rates that depend on norms (tp.NormalizedSGD)",
    "entrywise": "functions of entries (tp.SignSGD, tp.Lion, tp.Adam)", "clipped": "clipped gradients (tp.Clipped)"}
EVERY = tuple(UPDATES)
SIZES = {("infinite", "infinite"): "at infinite depth", ("infinite", "finite"): "at finite depth",
         ("finite", "finite"): "at finite width"}  # (width, depth)
BLOCKS = {"linear": "one matrix a block, linear", "without functions": "other linear networks",
          "kernels": "blocks that close on kernels", "attention": "softmax attention", "any": "any network"}
# what takes a kind of network: that kind, or what it is one of
WITHIN = {**{kind: (kind, "any") for kind in ("without functions", "kernels", "attention")},
          "linear": ("linear", "without functions", "kernels", "any"), "any": ("any",)}

TRAITS = {("exponents", "by matrix"): "update exponents matrix by matrix (`tp.Parametrization`)",
          ("powers_of_n", "any"): "powers of $n$ other than muP's",
          ("ends", "trained"): "embedding and readout are trained",
          ("spheres", "taken"): "weights on spheres (`sphere=True`)",
          ("visits", "infinitely many"): "layers that are visited infinitely often"}  # by field and value


@dataclass(frozen=True)
class Takes:
    """What a method takes.

    depth, width: "finite", "infinite" or "any"; updates: kinds of ``UPDATES``; blocks: a word of ``BLOCKS``;
    exponents: "one" size of updates for all matrices, or "by matrix"; powers_of_n: muP's alone, or "any"; ends:
    embedding and readout may be "trained", or are "frozen"; spheres: updates with ``sphere`` are "taken", or
    "refused"; visits of layers: "a number" or "infinitely many"; of_muon: where a tp.Muon is taken, if not everywhere.
    """

    depth: str
    width: str
    blocks: str = "any"
    updates: tuple[str, ...] = EVERY
    exponents: str = "by matrix"
    powers_of_n: str = "muP"
    ends: str = "trained"
    spheres: str = "taken"
    visits: str = "a number"
    of_muon: str = ""


TAKES = {
    "reflection": Takes("finite", "infinite", "linear", ("linear", "orthogonal"), "one"),
    "collocation": Takes("infinite", "infinite", "kernels", ("linear", "orthogonal"), "one",
                         of_muon="in linear blocks and phi(W x) without a norm"),
    "long_collocation": Takes("infinite", "infinite", "linear", ("linear",), "one", ends="frozen"),
    "loop_time": Takes("any", "infinite", "linear", ("linear",), "one", ends="frozen", visits="infinitely many"),
    "extrapolated": Takes("infinite", "infinite", "without functions", ("linear",)),
    "attention": Takes("infinite", "infinite", "attention", ("linear",), "one", ends="frozen"),
    "common_draws": Takes("infinite", "infinite"),
    "dense": Takes("finite", "finite", powers_of_n="any"),
    "conditioned": Takes("finite", "finite", spheres="refused"),
    "particles": Takes("finite", "infinite"),
    "coefficients": Takes("finite", "infinite", "without functions", ("linear",))}


class WrongSizes(str):
    """A refusal by depth and width alone, whatever the network."""


def misplaced(name: str, problem: Problem) -> str | None:
    """Why a method is not for the problem's depth and width, or None."""
    takes = TAKES[name]
    if takes.width != _size(problem.neurons):
        others = _names(one for one, other in TAKES.items() if other.width == "finite")
        return WrongSizes(f"method: got {name!r} with width {problem.neurons or 'tp.oo'}; expected {others} at finite "
                          "width, the others at width=tp.oo")
    if takes.depth not in ("any", _size(problem.layers)):
        others = _names(one for one, other in TAKES.items() if other.depth == "infinite")
        return WrongSizes(f"method: got {name!r} with depth {problem.layers or 'tp.oo'}; expected {others} at "
                          "depth=tp.oo, the others at finite depth")
    if takes.visits != _visits(problem):
        others = _names(one for one, other in TAKES.items() if other.visits != takes.visits)
        return WrongSizes(f"visits: got {'tp.oo' if problem.net.visits == sp.oo else problem.net.visits}; "
                          f"method={name!r} takes {takes.visits}; expected such visits, or {others}")
    return None


def not_taken(name: str, problem: Problem) -> str | None:
    """Why a method does not take how the problem is trained, its scaling or its optimizer, or None."""
    takes = TAKES[name]
    if takes.exponents == "one" and not isinstance(problem.scale, DepthScaling):
        return (f"scale: got {_checks.short(problem.scale)}, with update exponents matrix by matrix; method={name!r} "
                f"knows one for all; expected {_takers(problem, lambda other: other.exponents == 'by matrix')}")
    if takes.spheres == "refused" and on_sphere(problem.opt):
        return (f"opt: got {_checks.short(problem.opt)}; method={name!r} knows products of matrices and not their "
                f"norms; expected sphere=False, or {_takers(problem, lambda other: other.spheres == 'taken')}")
    if takes.updates != EVERY and (updates := kind_of_updates(problem.opt)) not in takes.updates:
        taken = " or ".join(UPDATES[kind] for kind in takes.updates)
        why = "outer products weigh the same in all layers" if takes.updates == ("linear",) else (
            "weights of outer products it knows")
        return (f"opt: got {_checks.short(problem.opt)}; method={name!r} takes {taken}, whose {why}; expected for "
                f"{UPDATES[updates]}: {_takers(problem, lambda other: updates in other.updates)}")
    return None


def _visits(problem: Problem) -> str:
    return "infinitely many" if problem.net.visits == sp.oo else "a number"


def _size(size: int | None) -> str:
    return "infinite" if size is None else "finite"


def _takers(problem: Problem, takes_trait: Callable[[Takes], bool]) -> str:
    """The methods that take a trait, and networks like the problem's, by depth and width."""
    blocks = {"linear": problem.net.is_plain, "without functions": problem.net.is_linear, "kernels": mixes(problem.net),
              "attention": getattr(problem.net, "attention", None) == "softmax", "any": True}
    found: dict[tuple[str, str], list[str]] = {}
    for name, takes in TAKES.items():
        if blocks[takes.blocks] and takes_trait(takes) and takes.visits == _visits(problem):
            found.setdefault((takes.width, takes.depth), []).append(name)
    return ", ".join(f"{_names(found[sizes])} {said}" for sizes, said in SIZES.items() if sizes in found) or (
        "a number of visits, of which other methods know")


def _names(names: Iterator[str] | list[str]) -> str:
    quoted = [repr(name) for name in names]
    return " and ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


@dataclass(frozen=True, repr=False)
class Coverage(Tabled, Short):
    """What every method takes, trait by trait; ``str`` prints it. rows: a dictionary a method; by_network: one a kind
    of network and of updates that are taken alike, with the methods for each size; by_trait: one for what a problem
    may ask beside these."""

    rows: list[dict[str, str]]
    by_network: list[dict[str, str]]
    by_trait: list[dict[str, str]]

    @property
    def markdown(self) -> str:
        """``by_network`` as a table in Markdown."""
        return _markdown(self.by_network)

    @property
    def traits_markdown(self) -> str:
        """``by_trait`` as a table in Markdown."""
        return _markdown(self.by_trait)

    def __str__(self) -> str:
        lines = []
        for row in self.rows:
            visits = "" if row["visits"] == "a number" else f"; {row['visits']} visits"
            lines.append(f"{row['method']}: {row['depth']} depth, {row['width']} width; {row['blocks']}{visits}")
            lines.append(f"    {row['updates']}; spheres {row['spheres']}")
            lines.append(f"    exponents: {row['exponents']}; powers of n: {row['powers_of_n']}; embedding and "
                         f"readout: {row['ends']}")
        return "\n".join(lines)


def _markdown(rows: list[dict[str, str]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def coverage() -> Coverage:
    """What every method takes, trait by trait, as its refusals have it.

    A method may refuse more, by name: what it takes in every trait may have no limit, or no rule. Raises nothing.

    ``markdown`` and ``traits_markdown`` are the tables of the documents, by kind of network and by trait.

    >>> import tpcalc as tp
    >>> print("\\n".join(str(tp.methods.coverage()).splitlines()[:3]))
    reflection: finite depth, infinite width; one matrix a block, linear
        a tp.SGD; a tp.Muon; spheres taken
        exponents: one; powers of n: muP; embedding and readout: trained
    """
    rows = []
    for name, takes in TAKES.items():
        row = {field.name: str(getattr(takes, field.name)) for field in fields(takes)}
        words = {**UPDATES, "orthogonal": f"{UPDATES['orthogonal']} {takes.of_muon}".strip()}
        updates = "every optimizer" if takes.updates == EVERY else "; ".join(words[kind] for kind in takes.updates)
        del row["of_muon"]
        rows.append({"method": name, **row, "blocks": BLOCKS[takes.blocks], "updates": updates})
    return Coverage(rows, list(_by_network()), list(_by_trait()))


def _by_network() -> Iterator[dict[str, str]]:
    """A row for updates that the same methods take in a kind of network, but where they do in any network."""
    anywhere = {kind: _cells("any", kind) for kind in UPDATES}
    for blocks, network in BLOCKS.items():
        alike: dict[tuple[str, ...], list[str]] = {}
        for kind in UPDATES:
            if (cells := _cells(blocks, kind)) != anywhere[kind] or blocks == "any":
                alike.setdefault(cells, []).append(UPDATES[kind])
        for cells, updates in alike.items():
            optimizer = "every optimizer" if len(updates) == len(UPDATES) else "; ".join(updates)
            yield {"network": network, "optimizer": optimizer, **dict(zip(SIZES.values(), cells))}


def _by_trait() -> Iterator[dict[str, str]]:
    """A row for every trait, with the methods that take it in some network; the visits are a number unless it asks."""
    for (trait, value), said in TRAITS.items():
        given = {"visits": "a number", trait: value}
        names = [name for name, takes in TAKES.items()
                 if all(getattr(takes, field) == one for field, one in given.items())
                 and (trait != "spheres" or takes.updates != ("linear",))]  # a tp.SGD has none
        yield {"asked for": said, **{size: ", ".join(
            f"`{name}`" for name in names if TAKES[name].width == width and TAKES[name].depth in ("any", depth)) or "-"
            for (width, depth), size in SIZES.items()}}


def _cells(blocks: str, updates: str) -> tuple[str, ...]:
    """By size, the methods that take such updates in such networks."""
    names = {name: f" {takes.of_muon}" * (updates == "orthogonal" and blocks != "linear" and bool(takes.of_muon))
             for name, takes in TAKES.items() if takes.blocks in WITHIN[blocks] and updates in takes.updates}
    return tuple(", ".join(f"`{name}`{where}" for name, where in names.items()
                           if (TAKES[name].width, TAKES[name].depth) == sizes) for sizes in SIZES)
