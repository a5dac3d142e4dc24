"""What is chosen where nothing was given works: no refusal is about a value that the user did not give."""

from __future__ import annotations

import random
import re
import sys
from itertools import cycle, product
from typing import Any, Iterator

import numpy as np
import pytest

import tpcalc as tp
from support.nightly import few_of
from tpcalc import methods
from tpcalc.interpreters.lowered import ArrayExecution
from tpcalc.interpreters.lowered_particles import ParticleExecution, least_samples
from tpcalc.propagators import training
from tpcalc.methods.sampled import training as training_of
from tpcalc.training.raw_problem import raw_problem
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
    real = training.train_rows  # whose module is one of those that are changed
    for module in list(sys.modules.values()):
        if getattr(module, "train_rows", None) is real:
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
    assert ": got " in capsys.readouterr().err


WIDE = tp.Task(np.ones((2, 40, 3)) + np.eye(40, 3), np.ones((2, 40, 1)))
NETS = {"mlp": tp.ResNet("tanh", "mlp"), "glu": tp.ResNet("silu", "glu", "rms"),
        "pre_nonlin": tp.ResNet("relu", "pre_nonlin")}
CALLS = {"Adam": tp.Adam(), "Lion": tp.Lion(), "SGD": tp.SGD(), "NormalizedSGD": tp.NormalizedSGD(), "Muon": tp.Muon(),
         "Clipped": tp.Clipped(tp.Adam(), 1.0)}


@pytest.mark.parametrize("net, opt", few_of(product(NETS, CALLS), *zip(cycle(NETS), CALLS)))
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
    task = tp.Task(np.ones((3, 120, 3)) + np.eye(120, 3), np.ones((3, 120, 1)))
    raw = raw_problem(tp.theory.DepthwiseScaling(), tp.ResNet("tanh", "pre_nonlin"), task, 4)
    with pytest.raises(Begun):
        tp.theory.dmft(raw)


@pytest.mark.parametrize("options", ["", "--steps 2", "--batch 8", "--phi silu --block glu --norm rms"])
def test_fewer_digits_are_taken_where_memory_is_short(options: str, begins: None, monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    """On a machine of 1/4 GiB; what is asked for is refused, and no width is named where none was given."""
    monkeypatch.setattr("tpcalc._checks.os.sysconf", lambda name: 2**14)
    command = ["train", "--optimizer", "normalizedsgd", "--depth", "4", "--phi", "tanh", "--block", "mlp"]
    with pytest.raises(Begun):
        cli.main([*command, *options.split()])
    assert cli.main([*command, *options.split(), "--batch", "64", "--steps", "10"]) == 2
    said = capsys.readouterr().err
    assert "particles needs" in said and "width" not in said


SHELL: dict[str, dict[str, tuple[str, ...]]] = {
    "classify": {"--phi": ("linear", "tanh", "relu"), "--block": ("post_nonlin", "pre_nonlin", "mlp"),
                 "--alpha": ("1/2", "1", "1/4"),
                 "--gamma": ("1/2", "0")},
    "derive": {"--alpha": ("1/2", "1"), "--gamma": ("1/2", "0"), "--lr": ("0.5",)},
    "audit": {"--branch": ("-1/2", "-1", "0"), "--optimizer": ("sgd", "adam", "muon", "lion", "adamw"),
              "--lr": ("-1/2", "0"), "--eps": ("-1", "0"), "--init": ("-1/2", "0"), "--weight-decay": ("0", "1"),
              "--gradient": ("-1/2",), "--sizes": ("depth=12,width=768,eps=1e-8,gradient=1e-5", "depth=12")}}
NEEDED = {"classify": {"--alpha", "--gamma"}, "derive": set(), "audit": {"--branch"}}


def refused_by(command: str, number: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    rng, wrong = random.Random(command), []
    for _ in range(number):
        given = [(name, rng.choice(values)) for name, values in SHELL[command].items()
                 if name in NEEDED[command] or rng.random() < 0.4]
        argv = [command, *(f"{name}={value}" for name, value in given)]
        code, (out, said) = cli.main(argv), capsys.readouterr()
        names = {name.removeprefix("--").replace("-", "_") for name, _ in given}
        if not (code == 0 and out or code and said) or blamed(said.removeprefix(f"tpcalc {command}: "), names):
            wrong.append(f"{' '.join(argv)}: {said}")
    return wrong


@pytest.mark.parametrize("command, number", [("audit", 12), ("derive", 1)])
def test_other_commands_refuse_no_default_of_their_own(command: str, number: int, capsys: pytest.CaptureFixture[str]
                                                       ) -> None:
    assert not refused_by(command, number, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("command, number", [("audit", 100), ("derive", 6), ("classify", 12)])
def test_no_command_refuses_a_default_of_its_own(command: str, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert not refused_by(command, number, capsys)


QUESTIONS = {  # with their own defaults
    "convergence": lambda net, opt: tp.convergence(net, FEW, opt, tp.DepthScaling(), (4, 8)),
    "transfer": lambda net, opt: tp.transfer(net, FEW, opt, tp.DepthScaling(), (4, 8), [0.1, 0.2]),
    "transfer at a width": lambda net, opt: tp.transfer(net, FEW, opt, tp.DepthScaling(), (4, 8), [0.1, 0.2], width=64),
    "train at infinite depth": lambda net, opt: tp.train(net, FEW, opt, tp.DepthScaling(), tp.oo)}
FEW = tp.Task(np.ones((2, 2, 3)) + np.eye(2, 3), np.ones((2, 2, 1)))


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_refuse_no_default_of_their_own(question: str, begins: None) -> None:
    begun = 0
    for net, opt in ((tp.ResNet(), "SGD"), (NETS["pre_nonlin"], "Adam")):
        try:
            QUESTIONS[question](net, CALLS[opt])
            begun += 1
        except Begun:
            begun += 1
        except (ValueError, MemoryError) as refusal:
            assert not blamed(str(refusal), {"net", "task", "opt", "scale"}), refusal
    assert begun


@pytest.mark.parametrize("phi", ["linear", "relu", "abs", "tanh", "erf", "gelu"])
def test_kernels_have_defaults_that_work(phi: str) -> None:
    assert tp.kernel_fn(tp.ResNet(phi))(np.eye(2), np.eye(2)).ntk.shape == (2, 2)


@pytest.mark.parametrize("options", [{}, {"mlp": None}, {"positions": 8}, {"qk_norm": True}, {"queries_per_key": 2},
                                     {"norm": None}, {"tied": True}])
def test_transformers_have_defaults_that_work(options: dict[str, Any]) -> None:
    assert tp.Transformer(**options) == tp.Transformer(**{"head_dim": 3 if "qk_norm" in options else 1, **options})
