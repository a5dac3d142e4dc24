"""A fault inside of what may refuse is seen as it was raised: no other answer is given, and no refusal made of it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Iterator

import pytest
import sympy as sp

import tpcalc as tp

TASK, OPT = tp.Task([1.0, 0.5], [1.0, -1.0]), tp.SGD(0.5)
TANH, RELU = tp.ResNet("tanh"), tp.ResNet("relu", "mlp")
HALF = tp.DepthScaling()
ALPHA, P = sp.symbols("alpha p", real=True)
NEVER = sp.Rational(7, 11)  # an exponent that no other test asks for, of which nothing is kept


def problem(net: Any = TANH, depth: Any = tp.oo, **others: Any) -> tp.Problem:
    given = {"scale": tp.DepthScaling(NEVER, NEVER), "task": TASK, "opt": OPT, **others}
    return tp.Problem(net=net, depth=depth, **given)


def staged(folder: Path) -> None:
    from tpcalc.reports.report import run_stage
    from tpcalc.reports.judged import Classified
    from tpcalc.reports.store import Store

    results: Any = SimpleNamespace(left_out={}, failures={}, seconds={})
    run_stage(results, Store(folder, True), lambda text: None, "one", {}, Classified, 1,
              lambda progress: tp.train(problem(), method="collocation"), lambda found: None)
    assert results.left_out == {"one": "a refusal"}


def derived() -> Any:
    from tpcalc.reports.stages import derive_stage
    return derive_stage(tp.ResNet(), OPT, HALF, (sp.Rational(1, 2), sp.Rational(1, 2)))  # type: ignore[arg-type]


def band() -> Any:
    from tpcalc.reports.stages import band_or_reason
    return band_or_reason(None, 4, [8], range(2), lambda: None)  # type: ignore[arg-type]


def checked() -> Any:
    found = tp.kets(tp.program(tp.ResNet(), OPT, HALF))
    return tp.check_steps(found, {"T": 1, "L": 1}, {"xi": [1.0], "y": [1.0]})


def layers() -> Any:
    from tpcalc.groups.names import find_layers
    shapes = {"h.0.w": (2, 2), "h.1.w": (2, 2)}
    return find_layers(shapes, shapes)


def swept(folder: Path) -> Any:
    return tp.transfer(tp.ResNet(), TASK, tp.SGD(0.1), HALF, depths=[2], learning_rates=[0.1], resume=folder)


PASSED_ON = {"the plane", "the plane of widths", "a named recipe", "lists of layers"}  # as they were raised
Ask = Callable[[Path], Any]
LOCATIONS: dict[str, tuple[str, str, Ask]] = {  # what breaks, and what is asked of the package
    "powers of L, training": ("propagators.limit_cell", "counted", lambda _: tp.train(problem(), method="collocation")),
    "powers of L, auto": ("propagators.limit_cell", "counted", lambda _: tp.train(problem())),
    "powers of L, table": ("propagators.limit_cell", "counted", lambda _: tp.methods.table(problem())),
    "powers of L, convergence": ("propagators.limit_cell", "counted", lambda _: tp.convergence(
        TANH, TASK, OPT, tp.DepthScaling(NEVER, NEVER), depths=[2, 4])),
    "a report's stage": ("propagators.limit_cell", "kernels_of", staged),
    "the cells": ("propagators.limit_cell", "normal_form", lambda _: tp.methods.table(problem())),
    "kernels": ("propagators.limit_cell", "kernels_of", lambda _: tp.methods.table(problem())),
    "corrections": ("propagators.depth_orders", "_of_kets", lambda _: tp.methods.table(problem())),
    "orders": ("methods.common_draws", "depth_orders", lambda _: tp.methods.table(problem())),
    "finite activations": ("models.network", "require_finite", lambda _: tp.train(
        problem(depth=4), method="particles")),
    "shared draws": ("methods.sampled", "refinement", lambda _: tp.methods.table(problem(depth=4))),
    "plain networks": ("models.network:Network", "require_plain", lambda _: tp.methods.table(problem(depth=4))),
    "added blocks": ("models.networks:Residual", "require_added", lambda _: TANH.is_added),
    "a perceptron's fate": ("methods.method", "width_verdict", lambda _: tp.methods.table(
        problem(depth=4, scale=tp.Parametrization("NTP")))),
    "the verdict": ("verdicts.classify", "_of_resnet", lambda _: tp.classify(
        "1/2", "1/2", net=tp.ResNet("tanh", norm="rms", norm_position="output"))),
    "the verdict in width": ("verdicts.classify", "width_verdict", lambda _: tp.classify(
        tp.Parametrization("NTP"))),
    "the plane": ("verdicts.phases.plane:ExponentPlane", "pieces", lambda _: tp.phase_diagram(
        scale=tp.DepthScaling(ALPHA, P))),
    "the plane of widths": ("verdicts.phases.width_plane:WidthPlane", "decisive", lambda _: tp.phase_diagram(
        scale=tp.WidthScaling([0, 0, ALPHA], [0, 0, P], ALPHA))),
    "a named recipe": ("tune.own_block", "verdict_on", lambda _: tp.named_recipes()["depth-mup"].verdict),
    "sizes in n": ("width.sizes.interpreter:SizeInterpreter", "read", lambda _: import_module(
        "tpcalc.width.sizes.verdict").width_verdict(tp.width.width_recipe("NTP", 5), "tanh")),
    "a recorded step": ("interpreters.step_values:StepValues", "value", lambda _: checked()),
    "a report's limit": ("reports.stages", "depth_limit", lambda _: derived()),
    "a report's kets": ("reports.transformer_stages", "kets", lambda _: import_module(
        "tpcalc.reports.transformer_stages").write_program(import_module(
            "tpcalc.reports.transformer_options").TransformerOptions())),
    "a report's band": ("reports.stages", "measure_band", lambda _: band()),
    "lists of layers": ("groups.names", "_require_one_kind", lambda _: layers()),
    "kept trainings": ("studies.transfer", "content", swept),
}


for location, _, _ in LOCATIONS.values():  # a module that is first imported later would keep what is broken
    import_module(f"tpcalc.{location.partition(':')[0]}")


def forget(module: Any) -> None:
    """Empty what a module keeps: an answer of another test would hide the fault, and it would stay for others."""
    for value in vars(module).values():
        if callable(clear := getattr(value, "cache_clear", None)):
            clear()


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str, Exception], Any]]:
    broken_modules: list[Any] = []

    def ask(name: str, error: Exception) -> Any:
        where, attribute, call = LOCATIONS[name]
        module, _, kind = where.partition(":")
        owner: Any = import_module(f"tpcalc.{module}")
        broken_modules.append(owner)
        forget(owner)
        owner = getattr(owner, kind) if kind else owner

        def broken(*arguments: Any, **options: Any) -> Any:
            raise error

        whole = getattr(owner, attribute)
        monkeypatch.setattr(owner, attribute, property(broken) if not callable(whole) else broken)
        return call(tmp_path)

    yield ask
    for module in broken_modules:
        forget(module)


@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError])
@pytest.mark.parametrize("name", LOCATIONS)
def test_a_fault_is_seen_as_it_was_raised(breaks: Any, name: str, kind: type[Exception]) -> None:
    fault = kind("a fault")
    with pytest.raises(kind) as seen:
        breaks(name, fault)
    assert seen.value is fault


@pytest.mark.parametrize("name", LOCATIONS)
def test_a_refusal_in_the_same_place_is_caught(breaks: Any, name: str) -> None:
    """What is caught there is what says that it is a refusal: there is an answer, or the reason in a sentence."""
    refusal = tp.NotCovered("a refusal")
    try:
        breaks(name, refusal)
    except tp.NotCovered as said:
        assert (said is refusal) == (name in PASSED_ON)
    else:
        assert name not in PASSED_ON
