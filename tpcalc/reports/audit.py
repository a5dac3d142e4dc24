"""``tpcalc audit``: what a recipe of powers of the depth does, as text, LaTeX or JSON."""

from __future__ import annotations

import argparse
import json

from .._types import Json
from .. import audit as audit_powers, named_recipes
from ..tune.audit import Audit
from ..tune.own_block import RecipeAudit
from ..tune.recipe import named_recipe
from .longer import is_longer, longer_command
from .model_plans import plan_command

LONGER = ("batch_size", "steps", "decay", "x", "u", "data")


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
