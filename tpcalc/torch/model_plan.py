"""A plan for a live model: initial sizes, multipliers by hooks, and what is known of a parameter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Callable, Iterable, Mapping

import torch
from torch import Tensor
from torch.nn import Module as Model
from torch.utils._pytree import tree_map

from .. import _checks
from .._files import write_text
from .._types import Value
from ..groups import Plan
from ..groups.plan import PlanEntry
from .reading.building import Config, Make
from .reading.reading import Reading
from .streams import build

if TYPE_CHECKING:
    from .schedules import PlanScheduler

CARRIED = "_tpcalc_plan"  # the attribute of a module that carries a plan
SHOWN = ("init", "lr", "eps", "weight_decay", "forward")


@dataclass(frozen=True, repr=False)
class ModelPlan(Plan):
    """A plan that can set initial sizes, since it knows how the base is made.

    make, base: as given to ``plan``, None in one that is loaded; reading: what its roles rest on, None where names and
    shapes told them; behind: modules to multiply, with factors; sizes: pattern -> root mean square in the base, where a
    file says it.
    """

    make: Make | None = None
    base: Config | None = None
    reading: Reading | None = None
    behind: tuple[tuple[str, float], ...] = ()
    sizes: Mapping[str, float] | None = None

    def multipliers(self) -> dict[str, float]:
        """As in ``Plan``, and modules that return a branch behind which a norm stands."""
        return {**super().multipliers(), **{module: factor for module, factor in self.behind if factor != 1}}

    def explain(self, pattern: str | PathLike[str]) -> str:
        """What the reading knows of the parameters that match, and the powers of their settings.

        pattern: a name of a parameter or a pattern of names; or the path of a file that ends in .md, into which a
        document of the whole plan is written: every power, why it is what it is, and what was measured of it on this
        model. Returns the text. Raises ``ValueError`` where no parameter matches, and for files that cannot be written.
        """
        if isinstance(pattern, PathLike) or str(pattern).endswith(".md"):
            from .design import design_of
            path = _checks.writable("pattern", pattern)
            if path.suffix != ".md":
                raise ValueError(f"pattern: got the path {str(path)!r}; expected a file that ends in .md, or a pattern")
            text = design_of(self)
            write_text(path, text)
            return text
        entries = [one for one in self.entries if fnmatchcase(one.parameter.pattern, pattern)
                   or any(fnmatchcase(name, pattern) for name in one.parameter.names)]
        if not entries:
            raise ValueError(f"pattern: got {pattern!r}, which no parameter matches; expected names or patterns")
        lines = []
        for entry in entries[:1]:
            if self.reading is not None and entry.parameter.base_names:
                lines.append(self.reading.explain(entry.parameter.base_names[0]))
            lines += [f"  {name}: {entry.power(name)} = {entry.factor(name):.4g}" for name in SHOWN
                      if entry.power(name) != "1"]
            lines.append(f"  why: {entry.why}")
        return "\n".join(lines)

    def _require_target(self, model: Value) -> None:
        super()._require_target(model)
        carried = carried_plan(model) if isinstance(model, Model) else None
        if carried is not None and carried.entries != self.entries:
            raise ValueError(f"model: got one that carries another plan ({carried.title}, forward="
                             f"{carried.forward!r}); expected the plan that was applied to it")

    def apply_(self, model: Model, seed: int = 0) -> Model:
        """``init_`` and ``multiplied_`` in one call: the model then starts, and computes, as the plan says; in place,
        and returns the model.

        Copies have the multipliers too, and so has ``torch.compile`` of the model. State dictionaries have parameters
        alone: what loads them is ``multiplied_`` or ``apply_``-ed as well. Raises ``ValueError`` for a model that
        carries a plan already, and as ``init_`` does, before anything is changed.
        """
        require_none(model)
        return self.multiplied_(self.init_(model, seed))

    def scheduler(self, optimizer: Value, make: Callable[[torch.optim.Optimizer], Value]) -> PlanScheduler:
        """The scheduler that ``make`` returns, of the base's learning rate; groups follow with their factors.

        optimizer: with the plan's groups; make: a function of an optimizer with one group of the base's rate. So
        schedulers with a rate of their own, such as ``max_lr``, ``eta_min`` or ``min_lr``, keep a plan. What is
        returned has ``step``, ``get_last_lr``, ``state_dict`` and ``load_state_dict``. Raises ``ValueError`` for groups
        that are not the plan's, and for a ``make`` that returns no scheduler of what it is given.
        """
        from .schedules import PlanScheduler
        return PlanScheduler(self, optimizer, make)

    def init_(self, model: Model, seed: int = 0) -> Model:
        """Give every parameter the size that it has in the base, times its factor; in place, and returns the model.

        What the model has drawn keeps its shape: root mean squares are set, pattern by pattern, over all layers. So
        factors of the depth that the model's own initialization has, such as GPT-2's, do not count twice. A base is
        built for its sizes, from ``seed``.

        Raises ``ValueError`` for parameters on the meta device, that are not finite (a model after ``to_empty`` has to
        be initialized first), and of a pattern that is zero here and not in the base.
        """
        return self.sized_(model, self.sizes_of_base(seed))

    def sized_(self, model: Model, before: Mapping[str, float]) -> Model:
        """As ``init_``, with the root mean squares of a base by pattern."""
        parameters = self.named(model)
        groups: dict[PlanEntry, list[Tensor]] = {}
        for name, parameter in parameters.items():
            _require_values(name, parameter)
            groups.setdefault(self.entry(name), []).append(parameter)
        factors = {}
        for entry, members in groups.items():
            pattern = entry.parameter.pattern
            now, then = _rms(members), before[pattern]
            if not now < float("inf") or now == 0 and then != 0:
                raise ValueError(f"{pattern}: got values of root mean square {now:g}, {then:g} in the "
                                 "base; expected a model that is initialized, in its own way")
            factors[entry] = then * entry.factor("init") / now if then else 0.0
        with torch.no_grad():
            for entry, members in groups.items():
                for parameter in members:
                    parameter.mul_(factors[entry]) if factors[entry] else parameter.zero_()
        return model

    def save(self, path: str | PathLike[str], seed: int = 0) -> None:
        """Write the plan into a file: JSON, which is YAML as well, for paths that end in .json, .yaml or .yml.

        ``tpcalc.torch.load`` reads it, in another process too, where ``make`` is not at hand: root mean squares of the
        base are in the file, of one that is built from ``seed``. Raises ``ValueError`` for other paths, and for files
        that cannot be written.
        """
        from .saved_plans import save_plan
        save_plan(self, path, self.sizes_of_base(seed))

    def sizes_of_base(self, seed: int = 0) -> Mapping[str, float]:
        """Pattern -> root mean square in the base: as saved, or in one that is built."""
        if self.sizes is not None:
            return self.sizes
        if self.make is None or self.base is None:
            raise ValueError("plan: got one without what makes its base; expected the plan that was made, or loaded")
        return self.base_sizes(build(self.make, self.base, seed))

    def base_sizes(self, base: Model) -> dict[str, float]:
        """Pattern -> root mean square of the parameters of a base that become it."""
        parameters = dict(self.named(base))
        for name, parameter in parameters.items():
            _require_values(name, parameter)
        found = {}
        for entry in self.entries:
            twins = entry.parameter.base_names or [one for one in parameters if self.entry(one) is entry]
            found[entry.parameter.pattern] = _rms(parameters[name] for name in twins)
        return found

    def multiplied_(self, model: Model) -> Model:
        """What modules return is multiplied as ``multipliers()`` says, by hooks; in place, and returns the model, which
        carries the plan from then on.

        Raises ``ValueError`` for a model that carries a plan already, one without a module that is to be multiplied,
        and one that was compiled before, whose hooks would not be seen.
        """
        require_none(model)
        rename, factors = self.rename(model), self.multipliers()
        modules = {rename(name): module for name, module in model.named_modules()}  # of wrappers what they wrap
        found = {pattern: [one for name, one in modules.items() if _is_named(name, pattern)] for pattern in factors}
        for pattern, members in found.items():
            if not members:
                raise ValueError(f"model: got none of the modules {pattern!r}, whose output is to be multiplied; "
                                 "expected models as make(**target) returns them")
        if found and (compiled := next((name for name, module in model.named_modules() if _is_compiled(module)), None)
                      ) is not None:
            raise ValueError(f"model: got {compiled or 'a model'} compiled already, which does not see multipliers "
                             "once it has run; expected torch.compile after the plan")
        for pattern, members in found.items():
            for module in members:
                module.register_forward_hook(partial(_times, factors[pattern]))
        setattr(model, CARRIED, replace(self, make=None, base=None, reading=None))
        return model


def carried_plan(model: Model) -> ModelPlan | None:
    """The plan that a model, or what it wraps, carries; None where it carries none. It is without its reading, and
    without what makes a base."""
    return next((vars(module)[CARRIED] for module in model.modules() if CARRIED in vars(module)), None)


def require_none(model: Model) -> None:
    """Raise ``ValueError`` for a model that carries a plan."""
    if isinstance(model, Model) and (plan := carried_plan(model)) is not None:
        raise ValueError(f"model: got one that carries a plan already ({plan.title}); expected a model as "
                         "make(**target) returns it")


def _is_compiled(module: Model) -> bool:
    return isinstance(module, torch._dynamo.OptimizedModule) or getattr(module, "_compiled_call_impl", None) is not None


def _is_named(module: str, pattern: str) -> bool:
    """Does a pattern name this module? Its stars are numbers of layers, and not what stands within them."""
    parts, stars = module.split("."), pattern.split(".")
    return len(parts) == len(stars) and all(map(fnmatchcase, parts, stars))


def _times(factor: float, module: Model, args: object, output: object) -> object:
    return tree_map(lambda one: one * factor if isinstance(one, Tensor) and one.is_floating_point() else one, output)


def _require_values(name: str, parameter: Tensor) -> None:
    if parameter.is_meta:
        raise ValueError(f"{name}: got on the meta device; expected models with values")


def _rms(parameters: Iterable[Tensor]) -> float:
    """The root mean square of several parameters together."""
    given = list(parameters)
    squares = sum(float(one.detach().double().square().sum()) for one in given)
    return float((squares / max(1, sum(one.numel() for one in given)))**0.5)
