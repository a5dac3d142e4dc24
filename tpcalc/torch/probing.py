"""Is the last matrix of a branch where a plan takes it to be? A live model answers."""

from __future__ import annotations

from typing import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import Module as Model

from ..groups.roles import Parameter, Roles
from .streams import layer_modules, recorded

HALF = 0.5  # of a branch: the first layer is to change the stream by half as much


def branch_outputs(roles: Roles) -> dict[str, list[Parameter]]:
    """Module (pattern) -> its parameters, for the last matrices of branches."""
    found: dict[str, list[Parameter]] = {}
    for parameter in roles.parameters:
        if parameter.in_layers and (parameter.role == "branch output" or
                                    parameter.role == "bias" and parameter.of_output):
            found.setdefault(parameter.module, []).append(parameter)
    return found


def stream_changes(model: Model, roles: Roles, batch: object) -> list[Tensor]:
    """By how much every layer but the last changes the stream: between its input and that of the next."""
    with torch.no_grad(), recorded(model, roles.layers) as stream:
        model(batch)
    inputs = [stream[index] for index in sorted(stream)]
    if len(inputs) < 2 or len({x.shape for x in inputs}) > 1:
        raise ValueError("base: got layers that pass on no stream of one shape, or one layer alone; expected two "
                         "layers or more, each called with the stream as its first tensor")
    return [(b - a).flatten().double() for a, b in zip(inputs, inputs[1:])]


def with_branch_outputs_times(model: Model, ends: dict[str, list[Parameter]], roles: Roles,
                              factors: dict[str, float]) -> Callable[[], None]:
    """Multiply the ends of branches by factors, in place; returns what undoes it."""
    kept: list[tuple[Tensor, Tensor]] = []
    for name, parameter in model.named_parameters():
        pattern = roles.layers.pattern(name)
        for module, parameters in ends.items():
            if any(pattern == one.pattern for one in parameters):
                kept.append((parameter.data, parameter.data.clone()))
                parameter.data.mul_(factors[module])

    def undo() -> None:
        for data, values in kept:
            data.copy_(values)

    return undo


def normalized_branches(model: Model, roles: Roles, batch: object) -> dict[str, str]:
    """{pattern of a module that ends a branch, but after which something normalizes, or is not linear: pattern of the
    module whose output can be multiplied instead}.

    Raises ``ValueError`` where layers change the stream although all ends of branches are zero: then some end is not
    known, or the stream itself is normalized; and where no module's output is the branch.
    """
    ends = branch_outputs(roles)
    whole, rest = (float(_alone(model, roles, batch, ends, None, s).norm()) for s in (1.0, 0.0))
    if not rest <= 1e-5 * whole:
        names = ", ".join(ends)
        raise ValueError(f"{names}: taken to be the last matrices of all branches; with them at zero, layers "
                         f"still change the stream, by {rest / whole:.2g} of what they did; expected layers that "
                         "add branches to a stream that nothing normalizes or multiplies")
    found = {}
    for module in ends:
        if _halved(*(_alone(model, roles, batch, ends, module, s) for s in (1.0, HALF))):
            continue
        found[module] = next(_candidates(model, roles, batch, ends, module), "")
        if not found[module]:
            raise ValueError(f"{module}: what it adds to the stream is not halved with it, and no module of the layer "
                             "returns the branch; expected a branch that a module returns, which can be multiplied")
    return found


def _alone(model: Model, roles: Roles, batch: object, ends: dict[str, list[Parameter]], module: str | None,
           factor: float) -> Tensor:
    """By how much layers change the stream with all ends times a factor; of one module, by how much the first layer
    does with the others at zero."""
    undo = with_branch_outputs_times(model, ends, roles,
                                     {other: factor if module in (None, other) else 0.0 for other in ends})
    try:
        found = stream_changes(model, roles, batch)
    finally:
        undo()
    return torch.cat(found) if module is None else found[0]


def _halved(whole: Tensor, half: Tensor) -> bool:
    return bool((half - HALF * whole).norm() <= 1e-3 * whole.norm())


def _candidates(model: Model, roles: Roles, batch: object, ends: dict[str, list[Parameter]],
                end: str) -> Iterator[str]:
    """Modules of a layer whose output, multiplied, multiplies the branch that has this end."""
    first = min(layer_modules(model, roles.layers))
    inside = [name for name, _ in model.named_modules() if roles.layers.index(name) == first
              and roles.layers.pattern(name) != roles.layers.stem + "*"]
    whole = _alone(model, roles, batch, ends, end, 1.0)
    for name in sorted(inside, key=lambda one: one.count(".")):
        handle = model.get_submodule(name).register_forward_hook(lambda _m, _a, out: _half(out))
        try:
            half = _alone(model, roles, batch, ends, end, 1.0)
        finally:
            handle.remove()
        if _halved(whole, half):
            yield roles.layers.pattern(name)


def _half(output: object) -> object:
    if isinstance(output, Tensor):
        return output * HALF
    return (output[0] * HALF, *output[1:]) if isinstance(output, tuple) and isinstance(output[0], Tensor) else output
