"""``tpcalc audit --batch-size --steps``: what rate and decay become for other batches and steps."""

from __future__ import annotations

import argparse
import json

import sympy as sp

from .._checks import exact
from .._types import Fields
from ..horizon.transfer_rule import transfer_rule
from .model_plans import UNREAD

RECIPES = ("branch", "recipe", "list")


def is_longer(args: argparse.Namespace) -> bool:
    """Was the audit asked for other batches or steps, of no recipe?"""
    return (args.batch_size or args.steps) is not None and not any(getattr(args, name) for name in RECIPES)


def longer_command(args: argparse.Namespace) -> int:
    """Print by what to multiply rate and decay, and what the decay becomes; powers that data decide stay symbols."""
    for name in (*UNREAD, "hf", "base", "data"):
        if name != "decay" and getattr(args, name):
            raise ValueError(f"{name}: got one with other batches or steps and no recipe, of which it says nothing; "
                             "expected it left out")
    (batch, more), (steps, longer) = args.batch_size or (1, 1), args.steps or (1, 1)
    rule = transfer_rule(args.optimizer or "adam", args.x, args.u)
    rows: list[Fields] = []
    for region in rule.regions:
        found = rule.factors(sp.Rational(more, batch), sp.Rational(longer, steps), region.where)
        row: Fields = {"batches": region.where, **{name: sp.simplify(factor) for name, factor in found.items()}}
        if args.decay is not None:
            row["decay becomes"] = exact("decay", args.decay) * row["decay"]
        rows.append(row)
    if args.json:
        print(json.dumps({"optimizer": rule.optimizer, "regions": [
            {name: str(value) for name, value in row.items()} for row in rows],
            "assumptions": list(rule.assumptions)}, indent=1))
        return 0
    for row in rows:
        print(f"{rule.optimizer}, {row.pop('batches')}: " + ", ".join(
            f"{name}{'' if name == 'decay becomes' else ' times'} {_shown(value)}" for name, value in row.items()))
    print(f"assumed: {'; '.join(rule.assumptions)}")
    left = sorted({str(one) for row in rows for value in row.values() for one in value.free_symbols})
    if left:
        print(f"of your data: {', '.join(left)}; give --{' and --'.join(left)}, as a sweep over steps has them")
    return 0


def _shown(value: sp.Expr) -> str:
    return f"{float(value):.6g}" if value.is_number else str(value)
