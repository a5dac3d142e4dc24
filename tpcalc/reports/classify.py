"""``tpcalc classify``: the verdict on (alpha, gamma), or the whole plane."""

from __future__ import annotations

import argparse

from .. import Divergence, ResNet, phase_diagram
from ..derivations.printing import rich, with_formulas
from .judged import DEEP, SHALLOW, judge_stage
from .progress import bar
from .store import print_json


def classify_command(args: argparse.Namespace) -> int:
    """Print the verdict on (alpha, gamma), or the whole plane."""
    net = ResNet(args.phi, args.block)
    if args.plane and args.measure:
        raise ValueError("got --plane with --measure; expected one of them")
    if args.plane:
        return plane(net, args.json, args.latex)
    with bar("measuring", len(args.depths or ()) or 7) as progress:
        tries = (args.depths,) if args.depths else (DEEP, SHALLOW)
        found = judge_stage(args.alpha, args.gamma, tries if args.measure else (), progress, net)
    if found.unmeasured:
        raise Divergence(found.unmeasured)
    if args.json:
        print_json({"alpha": str(args.alpha), "gamma": str(args.gamma), **vars(found)})
        return 0
    if args.latex:
        items = "\n".join(rf"\item {rich(with_formulas(reason))}" for reason in found.reasons)
        print(f"\\begin{{align*}}\n{found.latex}\n\\end{{align*}}\n\\begin{{itemize}}\n{items}\n\\end{{itemize}}")
        return 0
    print(f"alpha = {args.alpha}, gamma = {args.gamma}: {found.name}")
    for key, value in found.flags.items():
        print(f"  {key.replace('_', ' '):<24} {'undefined here' if value is None else 'yes' if value else 'no'}")
    print(f"  {'diversity exponent':<24} {found.diversity_exponent or 'undefined here'}")
    for reason in found.reasons:
        print(f"- {reason}")
    print(f"assumed: {'; '.join(found.assumptions)}")
    print(f"{'power of L':<32} {'derived':>8}" + (f" {'measured':>20}" if args.measure else ""))
    for row in found.rows:
        measured = "" if row["measured"] is None else f" {row['measured']:>9.4f} +- {row['uncertainty']:.4f}"
        print(f"{row['name']:<32} {row['derived'] or '-':>8}{measured}")
    return 0


def plane(net: ResNet, json_form: bool, latex_form: bool) -> int:
    """Print the phase diagram of a network."""
    with bar("dividing the plane", 1):
        found = phase_diagram(net)
    if json_form:
        print_json({"phi": str(net.phi), "block": str(net.block), "regions": [one.row for one in found.regions]})
    else:
        print(found.latex() if latex_form else found.table())
    return 0
