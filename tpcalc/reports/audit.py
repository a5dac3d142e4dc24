"""``tpcalc audit``: what a recipe of powers of the depth does, as text, LaTeX or JSON."""

from __future__ import annotations

import argparse
import json

import sympy as sp

from .._checks import exact
from .._types import Fields, Json, Value
from .. import audit as audit_powers, named_recipes
from ..horizon.transfer_rule import transfer_rule
from ..tune.audit import Audit
from ..tune.own_block import RecipeAudit
from ..tune.recipe import named_recipe

LONGER = ("batch_size", "steps", "decay", "x", "u", "data")
RECIPES = ("branch", "recipe", "list")
UNREAD = ("lr", "eps", "init", "weight_decay", "gradient", "sizes", "no_eps", "coupled", "independent", "latex",
          "decay")


def plan_command(args: argparse.Namespace) -> int:
    """Print the plan of the model that a configuration is of. Without a base it is from that model to twice its layers,
    so that powers are seen; models of more than 3e7 parameters have no values."""
    for name in UNREAD:
        if getattr(args, name):
            raise ValueError(f"{name}: got one with --hf, where the recipe says it; expected it left out")
    if args.recipe is None:
        raise ValueError("hf: got a configuration without a recipe; expected --recipe")
    from ..torch import plan  # here, since it imports torch
    from ..torch.configurations import configuration_of
    config, optimizer = configuration_of("hf", args.hf), args.optimizer or "adamw"
    given: Fields = {"recipe": args.recipe, "optimizer": optimizer, "x": args.x, "data": args.data}
    pairs = {name: getattr(args, name) for name in ("batch_size", "steps") if getattr(args, name) is not None}
    for name in ("x", "u"):
        if getattr(args, name) is not None and not pairs:
            raise ValueError(f"{name}: got {getattr(args, name)} without other batches or steps; expected --batch-size "
                             "or --steps")
    given["horizon"] = {**pairs, "u": args.u} if pairs else None
    found: Value
    if args.base is None:
        layers = getattr(config, "num_hidden_layers", None)
        if not isinstance(layers, int):
            raise ValueError("hf: got a configuration without a number of layers; expected --base")
        family: Value = plan(config, **given)
        found = family.at(num_hidden_layers=2 * layers)
    else:
        found = plan(configuration_of("base", args.base), config, **given)
    print(found.to("json") if args.json else found)
    return 0


def audit_command(args: argparse.Namespace) -> int:
    """Print one audit, of a named recipe on its own block, the table of named recipes, a plan of a model, or what rate
    and decay become for other batches and steps."""
    result: Audit | RecipeAudit
    if args.base is not None and args.hf is None:
        raise ValueError(f"base: got {args.base!r} without a configuration; expected --hf")
    if is_longer(args):
        return longer_command(args)
    if args.hf is not None:
        return plan_command(args)
    if args.branch is None and args.recipe is None and not args.list:
        raise ValueError("branch: got none; expected --branch, --recipe, --list, or --batch-size and --steps")
    for name in LONGER:
        if getattr(args, name) is not None:
            raise ValueError(f"{name}: got {getattr(args, name)} with {'--list' if args.list else 'a recipe'}, whose "
                             "powers are of the depth; "
                             "expected it without one, or with --hf")
    if args.list:
        table = named_recipes()
        print(json.dumps(table.rows, indent=1) if args.json else table)
        return 0
    if args.recipe is not None:
        if args.sizes is not None:
            raise ValueError("sizes: got some with a named recipe, whose matrices have gradients of their own; "
                             "expected None, or --branch")
        result = named_recipes()[named_recipe(args.recipe).name]  # refuses what there is none of
    else:
        optimizer, eps = args.optimizer or "adam", None if args.no_eps else args.eps
        result = audit_powers(args.branch, args.lr, optimizer, eps, args.init, args.weight_decay, not args.coupled,
                              args.independent, args.gradient, sizes=args.sizes)
    if args.json:
        print(json.dumps(recipe_as_data(result) if isinstance(result, RecipeAudit) else as_data(result), indent=1))
    elif args.latex:
        print(f"\\begin{{aligned}}\n{result.latex()}\n\\end{{aligned}}")
    else:
        print(result)
    return 0


def as_data(found: Audit) -> Json:
    """An audit as what JSON can hold; powers as exact strings."""
    return {
        "optimizer": found.settings.optimizer, "powers": {key: str(p) for key, p in found.powers.items()},
        "alpha": str(found.alpha), "gamma": str(found.gamma),
        "decay": None if found.decay is None else str(found.decay), "verdict": found.verdict.name,
        "eps_in_charge": None if found.eps_in_charge is None else found.eps_in_charge.name,
        "crossover_depth": found.crossover_depth, "sizes": dict(found.sizes), "far_away": found.far_away,
        "faithful_at_init": found.faithful_at_init, "warnings": list(found.warnings),
        "reasons": [*found.reasons, *found.verdict.reasons], "changes": list(found.recipe.changes),
        "assumed": list(found.assumed), "depth_mup": {key: str(p) for key, p in found.recipe.powers.items()}}


def recipe_as_data(found: RecipeAudit) -> Json:
    """An audit of a named recipe as what JSON can hold; powers as exact strings, by matrix."""
    return {
        "recipe": found.name, "block": found.block, "optimizer": found.optimizer,
        "powers": {name: {key: str(p) for key, p in found.settings.said(name).items()}
                   for name in found.settings.powers},
        "zero": list(found.zero), "alpha": str(found.alpha),
        "gammas": {name: str(gamma) for name, gamma in found.gammas.items()},
        "decays": {name: None if decay is None else str(decay) for name, decay in found.decays.items()},
        "verdict": found.called, "outgrown": list(found.outgrown),
        "eps_in_charge": found.called_in_charge or None, "far_away": found.far_away,
        "warnings": list(found.warnings), "reasons": list(found.verdict.reasons),
        "changes": list(found.changes), "caveat": found.caveat, "assumed": list(found.assumed)}


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
