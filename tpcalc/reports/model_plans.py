"""``tpcalc audit --hf``: what a recipe sets for every parameter of a model, from its configuration alone."""

from __future__ import annotations

import argparse

from .._types import Fields, Value

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
