"""``tpcalc derive``: what can be derived of a training, as text, as LaTeX or as JSON, and why the rest cannot."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field, fields
from importlib import import_module
from textwrap import shorten
from typing import Any, Callable, Iterable, Mapping, Sequence

import sympy as sp

from .._types import Json
from .. import (SGD, DepthScaling, Divergence, Program, ResNet, Transformer, _checks, depth_limit, kets, program,
                recursion)
from ..action.block_kernels import derive_block_kernels
from ..action.densities import TARGETS, Densities, derive_densities
from ..action.named_means import NamedMeans
from ..action.symbols import action_symbols
from ..calculus.setting import Setting
from ..calculus.symbols import Meaning, symbols
from ..errors import NotCovered
from .arguments import one_line
from .commands import OPTIMIZERS
from .pages import breaking
from .pages.derivations import derivation
from .pages.document import Block, DisplayedFormula, Document, Paragraph, Plain, Section
from .pages.latex import render_latex
from .stages import SYMBOLS, steps_of
from .store import print_json


SETTINGS = dict(zip(("beta1", "beta2", "eps"), sp.symbols("beta_1 beta_2 epsilon", positive=True)))
OF_BOTH = ("phi", "norm")  # options of networks of both kinds, and of each alone
OWN = {"resnet": ("block", "matrices"), "transformer": ("positions", "head_dim")}
MEMORY = ("momentum", "weight_decay")
OF_TRAININGS = ("net", *OF_BOTH, *OWN["resnet"], *OWN["transformer"], "alpha", "gamma", "lr", "optimizer", *MEMORY)
COLUMN = 56.0  # letters of a line of an article
SCALING = ((r"\alpha", r"\gamma"), r"exponents of the depth: branches are multiplied by $L^{-\alpha}$, updates are of "
           r"size $L^{-\gamma}$")

OF_OPTIMIZER = "the optimizer's settings of these names"


@dataclass(frozen=True)
class Part:
    """One thing that is derived: as text, as lines of an ``aligned`` environment, with its symbols; why: not at all."""

    title: str
    text: str = ""
    latex: str = ""
    legend: Sequence[Meaning] = ()
    why: str = ""


@dataclass(frozen=True)
class DerivedTraining:
    """The parts, and the recorded steps that led to them."""

    title: str
    parts: list[Part] = field(default_factory=list)
    steps: list[Json] = field(default_factory=list)


def derive_command(args: argparse.Namespace) -> int:
    """Print what can be derived, and in a line what cannot and why; 2 where there is not even a program."""
    if args.program:
        _refuse(args, OF_TRAININGS, f"beside {args.program}")
        found = derived(_of_user(args.program))
    else:
        args.net, args.optimizer, args.lr = args.net or "resnet", args.optimizer or "sgd", args.lr or (1.0,)
        net, opt = _network(args), _optimizer(args)
        found = derived(_training(args, net, opt), net, opt)
    if args.json:
        print_json({"name": found.title, "steps": found.steps,
                    **{part.title: {"text": part.text, "latex": part.latex, "why": part.why} for part in found.parts}})
    elif args.latex:
        print(render_latex(document(found, args.derivation)))
    elif args.fragment:
        print(fragment(found, args.derivation))
    else:
        print(as_text(found, args.derivation))
    return 0


def derived(source: Program, net: ResNet | Transformer | None = None, opt: object = None) -> DerivedTraining:
    """Program, kets, recursion and limit of infinite depth; of nonlinear residual networks kernels and densities.

    net, opt: what the program trains, where it is no program of a user's own.
    """
    setting = Setting.of(source)
    found = DerivedTraining(source.name)
    statements = [p.statement.value for p in source.locations()]
    statements += dict.fromkeys(end for p in source.locations() for loop in p.loops for end in loop.bounds)
    met = set().union(*(value.free_symbols for value in statements))
    settings = tuple(sp.latex(one) for one in SETTINGS.values() if one in met)
    said = [*([SCALING] if met & set(SYMBOLS) else []), *([(settings, OF_OPTIMIZER)] if settings else [])]
    found.parts.append(Part("program", str(source), source.latex(), [*symbols(setting, statements), *said]))
    equations = _part(found, "kets", lambda: kets(source),
                      lambda e: symbols(setting, [one.value for one in e.equations]))
    if equations is not None:
        found.steps.extend(steps_of(equations))
    linear = None if equations is None else _part(
        found, "recursion", lambda: recursion(equations),
        lambda r: symbols(setting, [value for _, value, _ in r.written()]))
    if linear is not None:
        found.steps[:] = steps_of(linear)
    if equations is not None:
        limit = _part(found, "limit of infinite depth", lambda: depth_limit(equations if linear is None else linear),
                      lambda d: symbols(setting, [e for one in d.regions if one.has_limit
                                                  for equation in one.equations for e in equation.sides]))
        if limit is not None and linear is None:
            before = len(found.steps)
            found.steps.extend({**one, "number": before + one["number"]} for one in steps_of(limit.regions[0]))
    if isinstance(net, ResNet) and not net.is_linear:
        kernels = _part(found, "kernels of the block", lambda: _Kernels.of(net),
                        lambda k: action_symbols([*map(sp.Symbol, k.values), *k.values.values()]))
        if kernels is not None:
            _part(found, "densities of the action at infinite depth", lambda: _densities(net, opt),
                  lambda d: action_symbols([*TARGETS.values(), d.A, d.B, d.B_diagonal, d.N0, d.N1]))
    return found


def _densities(net: ResNet, opt: object) -> Densities:
    """Raises ``NotCovered`` for updates that are no sums of outer products."""
    if not isinstance(opt, SGD):
        raise NotCovered(f"opt: got {_checks.short(opt)}; the action is that of updates that are sums of outer "
                         "products with numbers in front; expected a tp.SGD")
    return derive_densities(net)


@dataclass(frozen=True)
class _Kernels:
    """kappa, and theta of every matrix of a block, as equations; values: by name."""

    values: Mapping[str, sp.Expr]

    @classmethod
    def of(cls, net: ResNet) -> _Kernels:
        found = derive_block_kernels(net)
        return cls({"kappa": found.kappa, **{f"theta^{{{name}}}": one for name, one in found.thetas.items()}})

    def __str__(self) -> str:
        return "\n".join(f"{name} = {value}" for name, value in self.values.items())

    def latex(self) -> str:
        means = NamedMeans(self.values.values())
        lines = [rf"\{name} &= {means.latex(value)}" for name, value in self.values.items()]
        return " \\\\\n".join([*lines, *means.legend()])


def _part(found: DerivedTraining, title: str, derive: Callable[[], Any], legend: Callable[[Any], Sequence[Meaning]]
          ) -> Any:
    """Derive and keep a part; None, with the reason kept, where no rule covers it."""
    try:
        value = derive()
        found.parts.append(Part(title, str(value), value.latex(), legend(value)))
        return value
    except (NotCovered, Divergence) as reason:
        found.parts.append(Part(title, why=shorten(one_line(reason), 240, placeholder=" ...")))
        return None


def as_text(found: DerivedTraining, with_steps: bool) -> str:
    parts = [f"{part.title}\n\n{part.text or f'not derived: {part.why}'}\n" for part in found.parts]
    steps = [f"({one['number']}) {one['rule']}: {one['reason']} [{one['source']}]\n    {one['latex']}"
             for one in found.steps] if with_steps else []
    return "\n".join([*parts, *steps])


def document(found: DerivedTraining, with_steps: bool) -> Document:
    """A document with a section a part, its symbols behind its formula, and the steps as an appendix."""
    sections, known = [], set[Meaning]()
    for part in found.parts:
        blocks: list[Block] = [DisplayedFormula(part.latex)] if part.latex else [Plain([f"Not derived: {part.why}"])]
        new = [one for one in part.legend if one not in known]
        known |= set(new)
        if new:
            said = (f"${'$, $'.join(several)}$: {words}" for several, words in new)
            blocks.append(Paragraph("Here " + "; ".join(said) + "."))
        sections.append(Section(part.title.replace(" ", "-"), part.title.capitalize(), blocks))
    if with_steps and found.steps:
        sections.append(Section("steps", "The steps", derivation(found.steps), is_appendix=True))
    return Document(found.title[0].upper() + found.title[1:], "derived by `tpcalc derive`", sections)


def fragment(found: DerivedTraining, with_steps: bool) -> str:
    """The equations alone, each part in an environment that pages may break, for a document that loads amsmath."""
    shown = [(part.title, part.latex) for part in found.parts if part.latex]
    if with_steps:
        shown += [("steps", block.latex) for block in derivation(found.steps) if isinstance(block, DisplayedFormula)]
    lines = [f"% {title}\n\\begingroup\\allowdisplaybreaks\n\\begin{{align*}}\n{breaking.aligned(text, COLUMN)}\n"
             "\\end{align*}\n\\endgroup" for title, text in shown]
    lines += [f"% {part.title}: not derived: {part.why}" for part in found.parts if part.why]
    return "\n\n".join(lines)


def _refuse(args: argparse.Namespace, names: Iterable[str], beside: str) -> None:
    """Raise ``ValueError`` for the first of these options that is given: nothing would read it."""
    for name in names:
        if (value := getattr(args, name)) is not None:
            raise ValueError(f"--{name.replace('_', '-')}: got {value} {beside}; expected nothing")


def _network(args: argparse.Namespace) -> ResNet | Transformer:
    """The network that the options say."""
    _refuse(args, [name for kind, names in OWN.items() if kind != args.net for name in names], f"with --net {args.net}")
    given = {name: value for name in (*OF_BOTH, *OWN[args.net]) if (value := getattr(args, name)) is not None}
    return ResNet(**given) if args.net == "resnet" else Transformer(**given)


def _optimizer(args: argparse.Namespace) -> Any:
    """An optimizer whose settings other than the rate are symbols, where it takes symbols."""
    kind = OPTIMIZERS[_checks.choice("optimizer", args.optimizer, OPTIMIZERS)]
    settings = {one.name for one in fields(kind)}
    rate = args.lr[0] if len(args.lr) == 1 else args.lr
    _refuse(args, set(MEMORY) - settings, f"with --optimizer {args.optimizer}")
    given = {name: float(value) for name in MEMORY if (value := getattr(args, name)) is not None}
    return kind(rate, **given, **{name: symbol for name, symbol in SETTINGS.items() if name in settings})


def _training(args: argparse.Namespace, net: ResNet | Transformer, opt: Any) -> Program:
    given = (args.alpha, args.gamma)
    return program(net, opt, DepthScaling(*(s if one is None else one for s, one in zip(SYMBOLS, given))))


def _of_user(given: str) -> Program:
    """The program that a function of a module returns, the module found from the folder that one stands in."""
    module, colon, name = given.partition(":")
    if not (module and colon and name):
        raise ValueError(f"program: got {given!r}; expected module:function, a function that returns a tp.Program")
    sys.path.insert(0, "")
    try:
        loaded = import_module(module)
    except ImportError as error:
        raise ValueError(f"program: got {given!r}; {error}") from None
    finally:
        sys.path.remove("")
    if not hasattr(loaded, name):
        raise ValueError(f"program: got {given!r}; {module} has no attribute {name!r}")
    function = getattr(loaded, name)
    found = function() if callable(function) else function
    if not isinstance(found, Program):
        raise ValueError(f"program: got {given!r}, which is {_checks.short(found)}; expected a function that returns a "
                         "tp.Program")
    return found
