"""What is chosen where nothing was given works: no refusal is about a value that the user did not give."""

from __future__ import annotations

import random
import re
import sys
from typing import Any, Iterator

import numpy as np
import pytest

import tpcalc as tp
from tpcalc import methods
from tpcalc.interpreters.lowered import ArrayExecution
from tpcalc.interpreters.lowered_particles import ParticleExecution, least_samples
from tpcalc.propagators import training
from tpcalc.methods.sampled import training as training_of
from tpcalc.programs.raw_problem import raw_problem
from tpcalc.reports import cli, commands

OPTIONS: dict[str, tuple[float, tuple[str, ...]]] = {  # how often each is given, and what
    "--phi": (0.7, ("linear", "relu", "abs", "tanh", "erf", "gelu", "silu")),
    "--block": (0.7, ("post_nonlin", "pre_nonlin", "mlp", "glu")), "--norm": (0.4, ("rms", "layer")),
    "--optimizer": (0.9, tuple(commands.OPTIMIZERS)), "--depth": (0.7, ("1", "4", "16")),
    "--width": (0.3, ("8", "64", "oo")), "--method": (0.3, ("auto", *methods.choice.ALIASES)),
    "--steps": (0.6, ("1", "2", "3")), "--batch": (0.4, ("1", "4", "16")), "--alpha": (0.2, ("1/2", "1")),
    "--gamma": (0.2, ("1/2", "1")), "--lr": (0.2, ("0.5",))}
CHECKED = re.compile(r"(?:^|[;(] ?|, )(\w+): \S.{0,200}? given")


class Begun(BaseException):
    """The work has begun, and nothing was refused."""


@pytest.fixture
def begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training ends where it begins, by whatever method."""
    def begun(*arguments: Any, **options: Any) -> Any:
        raise Begun

    monkeypatch.setattr(ArrayExecution, "run", begun)
    monkeypatch.setattr(ParticleExecution, "run", begun)
    for module in list(sys.modules.values()):
        if getattr(module, "train_rows", None) is training.train_rows:
            monkeypatch.setattr(module, "train_rows", begun)


def drawn(number: int, seed: int, depths: tuple[str, ...]) -> Iterator[list[str]]:
    rng = random.Random(seed)
    for _ in range(number):
        given = [(name, rng.choice(depths if name == "--depth" else values)) for name, (share, values)
                 in OPTIONS.items() if rng.random() < share or name == "--depth" and "oo" not in depths]
        yield ["train", *(word for pair in given for word in pair)]


PARTS = {"net": {"phi", "block", "norm", "method"}, "opt": {"optimizer", "method"},
         "scale": {"alpha", "gamma", "method"}}


def blamed(message: str, given: set[str]) -> set[str]:
    """The parameters that a refusal is about, and nobody gave; parts of a problem are what options make."""
    return set(CHECKED.findall(message)) - given - {part for part, made_of in PARTS.items() if made_of & given}


def refused_defaults(number: int, seed: int, depths: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> list[str]:
    wrong, begun = [], 0
    for argv in drawn(number, seed, depths):
        try:
            cli.main(argv)
        except Begun:
            begun += 1
            continue
        said = capsys.readouterr().err.removeprefix("tpcalc train: ")
        if blamed(said, {word.removeprefix("--") for word in argv[1::2]}) or not said:
            wrong.append(f"{' '.join(argv)}: {said}")
    assert begun > number / 2
    return wrong


def test_the_shell_refuses_no_default_of_its_own(begins: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert not refused_defaults(14, 0, ("1", "4"), capsys)


@pytest.mark.slow
def test_no_default_is_refused_at_any_depth(begins: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert not refused_defaults(300, 1, ("1", "4", "16", "oo"), capsys)


@pytest.mark.parametrize("options", ["--width 8", "--method dense", "--method particles", "--method collocation",
                                     "--method conditioned --depth 3"])
def test_sizes_that_are_not_given_go_with_those_that_are(options: str, begins: None) -> None:
    try:
        assert cli.main(["train", "--steps", "1", "--batch", "2", *options.split()]) == 0
    except Begun:
        pass


@pytest.mark.parametrize("options", ["--width 8 --depth oo", "--method dense --width oo",
                                     "--method particles --depth oo", "--method collocation --depth 4",
                                     "--method reflection --width 8"])
def test_sizes_that_are_given_are_refused_where_they_do_not_go(
        options: str, begins: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "--steps", "1", "--batch", "2", *options.split()]) == 2
    assert "given with" in capsys.readouterr().err


WIDE = tp.Task(np.ones((2, 40, 3)) + np.eye(40, 3), np.ones((2, 40, 1)))
NETS = {"mlp": tp.ResNet("tanh", "mlp"), "glu": tp.ResNet("silu", "glu", "rms"),
        "pre_nonlin": tp.ResNet("relu", "pre_nonlin")}
CALLS = {"Adam": tp.Adam(), "Lion": tp.Lion(), "SGD": tp.SGD(), "NormalizedSGD": tp.NormalizedSGD(), "Muon": tp.Muon(),
         "Clipped": tp.Clipped(tp.Adam(), 1.0)}


@pytest.mark.parametrize("opt", CALLS)
@pytest.mark.parametrize("net", NETS)
def test_particles_are_as_many_as_a_program_needs(net: str, opt: str, begins: None) -> None:
    with pytest.raises(Begun):
        tp.train(NETS[net], WIDE, CALLS[opt], tp.DepthScaling(), 4)
    with pytest.raises(ValueError, match="samples: got 64"):
        tp.train(NETS[net], WIDE, CALLS[opt], tp.DepthScaling(), 4, samples=64)


def test_a_quarter_of_the_particles_is_enough_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms are held against those of a quarter of the particles, which must be enough as well: both are begun."""
    seen: list[int] = []

    def noted(program: Any, sizes: Any, data: Any, samples: int, *others: Any) -> Any:
        seen.append(samples)
        if len(seen) == 2:
            raise Begun
        return None

    monkeypatch.setattr("tpcalc.methods.particles.particles", noted)
    problem = tp.Problem(NETS["mlp"], WIDE, CALLS["NormalizedSGD"], tp.DepthScaling(), 2)
    with pytest.raises(Begun):
        tp.methods.Particles().solve(problem)
    assert seen[1] == seen[0] // 4
    assert seen[1] >= least_samples(*(lambda job: (job.program(), job.sizes(), job.data(), job.task.loss))(
        training_of(problem)))


def test_the_mean_field_theory_chooses_enough_particles(begins: None) -> None:
    task = tp.Task(np.ones((3, 250, 3)) + np.eye(250, 3), np.ones((3, 250, 1)))
    raw = raw_problem(tp.DepthwiseScaling(), tp.ResNet("tanh", "pre_nonlin"), task, 4)
    with pytest.raises(Begun):
        tp.dmft(raw)
