"""``tpcalc derive``: any network and programs of one's own; what cannot be derived is said; symbols are explained."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.action.densities import derive_densities
from tpcalc.calculus.kets import Ket
from tpcalc.calculus.setting import Setting
from tpcalc.calculus.symbols import symbols
from tpcalc.derivations.printing import latex
from tpcalc.programs.program import Assign, Loop, Program
from tpcalc.reports import cli
from tpcalc.theory import Family, Matrix, MatVec, Vector

SYMBOLS = sp.symbols("alpha gamma", real=True)
PARTS = ("program", "kets", "recursion", "limit of infinite depth", "kernels of the block",
         "densities of the action at infinite depth")


def printed(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert cli.main(["derive", *line.split()]) == 0
    return capsys.readouterr().out


def parts(capsys: pytest.CaptureFixture[str], line: str) -> dict[str, dict[str, str]]:
    found = json.loads(printed(capsys, f"{line} --json"))
    return {name: found[name] for name in PARTS if name in found}


@pytest.mark.parametrize("line, derived, reasons", [
    ("", PARTS[:4], {}),
    ("--block mlp --matrices 3", PARTS[:4], {}),
    ("--phi tanh", (*PARTS[:2], *PARTS[3:]), {"recursion": "is not linear in kets"}),
    ("--phi relu --optimizer adam", (*PARTS[:2], PARTS[4]), {
        "recursion": "not linear in kets", PARTS[3]: "means over independent copies",
        PARTS[5]: "updates that are sums of outer products"}),
    ("--phi tanh --block mlp --optimizer muon", ("program", PARTS[4]), {
        "kets": "Gram matrices", PARTS[5]: "sums of outer products"}),
    ("--net transformer --head-dim 2", ("program",), {"kets": "kets are of one coordinate"})])
def test_what_can_be_derived_is_and_the_rest_says_why(line: str, derived: tuple[str, ...], reasons: dict[str, str],
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    found = parts(capsys, line)
    assert tuple(name for name, one in found.items() if one["latex"]) == derived
    assert {name for name, one in found.items() if one["why"]} == set(reasons)
    assert all(reasons[name] in found[name]["why"] for name in reasons)


def test_the_parts_are_what_library_calls_give(capsys: pytest.CaptureFixture[str]) -> None:
    net = tp.ResNet("tanh", "mlp", norm="rms")
    found = parts(capsys, "--phi tanh --block mlp --norm rms --alpha 1/2 --gamma 1/2 --lr 0.5")
    program = tp.program(net, tp.SGD(0.5), tp.DepthScaling())
    assert found["program"]["text"] == str(program) and found["program"]["latex"] == program.latex()
    assert found["kets"]["latex"] == tp.kets(program).latex()
    assert found[PARTS[3]]["latex"] == tp.depth_limit(tp.kets(program)).latex()
    assert found[PARTS[5]]["latex"] == derive_densities(net).latex()
    net = tp.Transformer(positions=3, phi="relu")
    found = parts(capsys, "--net transformer --positions 3 --phi relu")
    assert found["kets"]["text"] == str(tp.kets(tp.program(net, tp.SGD(), tp.DepthScaling(*SYMBOLS))))


def test_blocks_of_many_matrices_have_letters_enough(capsys: pytest.CaptureFixture[str]) -> None:
    text = parts(capsys, "--block mlp --matrices 4 --phi silu --norm layer --optimizer muon")[PARTS[4]]["latex"]
    assert "z_a" in text and "u^{(5)}_a" in text


def test_long_functions_of_gradients_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    text = parts(capsys, "--phi relu --optimizer adam")["kets"]["latex"]
    assert [line.partition(" &=")[0].strip() for line in text.split("\\\\")][-2:] == [
        r"\mathcal{Q}_{s}^{l}", r"\mathcal{R}_{s}^{l}"]
    assert text.count(r"\mathcal{Q}_{s}^{l}") == text.count(r"\mathcal{R}_{s}^{l}") == 2 and text.count(r"\sqrt") == 4
    assert r"\mathcal" not in parts(capsys, "--phi relu --optimizer signsgd")["kets"]["latex"]


def test_long_functions_of_many_matrices_have_names_of_their_own() -> None:
    """More than there are letters; each stands in equations, and on the left of one line."""
    text = tp.kets(tp.program(tp.Transformer(positions=2, phi="relu"), tp.Adam(), tp.DepthScaling())).latex()
    named = [line.partition(" &=")[0].strip() for line in text.split("\\\\\n") if line.startswith(r"\mathcal")]
    assert len(named) == len(set(named)) == 12 and all(text.count(name) > 1 for name in named)


def test_settings_of_optimizers_are_symbols(capsys: pytest.CaptureFixture[str]) -> None:
    text = parts(capsys, "--optimizer adam")["program"]["latex"]
    assert all(symbol in text for symbol in (r"\beta_{1}", r"\beta_{2}", r"\epsilon")) and "999" not in text


PROGRAM = '''
import tpcalc as tp
from tpcalc.theory import MatVec

def block(b):
    return MatVec(b.weights("A"), b.let("z", MatVec(b.weights("B"), b.x)))

def training():
    return tp.program(tp.ResNet(block=block), tp.SGD(), tp.DepthScaling())

value = 3
'''


def test_programs_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                              capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own_program_of_a_test.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    found = parts(capsys, "own_program_of_a_test:training")
    assert set(found) == set(PARTS[:4]) and "B[t, l] @ x[t, l - 1]" in found["program"]["text"]
    for given, said in (("own_program_of_a_test", "expected module:function"), ("nowhere_at_all:f", "No module named"),
                        ("own_program_of_a_test:missing", "has no attribute"),
                        ("own_program_of_a_test:value", "which is 3; expected a function"),
                        ("own_program_of_a_test:training --phi tanh", "--phi: got tanh beside own_program"),
                        ("own_program_of_a_test:training --lr 1", "--lr: got (1.0,) beside own_program")):
        assert cli.main(["derive", *given.split()]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and said in error


@pytest.mark.parametrize("line, said", [
    ("--positions 3", "--positions: got 3 with --net resnet; expected nothing"),
    ("--net transformer --block mlp", "--block: got mlp with --net transformer; expected nothing"),
    ("--optimizer adagrad", "optimizer: got 'adagrad'; expected 'sgd'"), ("--phi cosh", "phi: got 'cosh'"),
    ("--matrices 3", "matrices: got 3 with block='post_nonlin'")])
def test_bad_input_is_one_line(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["derive", *line.split()]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and said in error


def test_momentum_and_decay_are_the_librarys(capsys: pytest.CaptureFixture[str]) -> None:
    found = parts(capsys, "--momentum 0.9 --weight-decay 0.1")
    written = tp.program(tp.ResNet(), tp.SGD(1.0, momentum=0.9, weight_decay=0.1), tp.DepthScaling(*SYMBOLS))
    assert found["kets"]["text"] == str(tp.kets(written)) and "9*" in found["program"]["text"]
    assert cli.main(["derive", "--optimizer", "signsgd", "--momentum", "0.9"]) == 2
    assert "--momentum: got 9/10 with --optimizer signsgd" in capsys.readouterr().err


def test_steps_are_numbered_through(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of kets, and those of their limit behind them; sources have their keys without brackets of their own."""
    line = "--phi tanh --alpha 1/2 --gamma 1/2"
    steps = json.loads(printed(capsys, f"{line} --json"))["steps"]
    assert [one["number"] for one in steps] == list(range(1, len(steps) + 1)) and len(steps) > 25
    text = printed(capsys, f"{line} --derivation --latex")
    assert text.count(r"\overset{(1)}{=}") == 1 and r"(Tensor Programs VI, appendix F, \texttt{" in text
    assert r"\frac{\frac" not in text and r"\sum_{s=0}^{t} \frac{1}{\sqrt{L}} \frac{\partial" in text


def test_regions_name_streams_as_kets(capsys: pytest.CaptureFixture[str]) -> None:
    text = parts(capsys, "--phi tanh")[PARTS[3]]["latex"]
    assert r"\text{no limit: updates add up in the stream $| x \rangle$ like $L^" in text and "|x>" not in text


def test_momentum_says_where_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    """Equations of what optimizers remember are solvable with the list beside them."""
    text = printed(capsys, "--phi tanh --alpha 1/2 --gamma 1/2 --momentum 0.9 --latex")
    assert "stand in $W$ at step $t$; at step $0$ they are $1$ and $0$" in text
    assert r"stand in $\mathrm{m}W$ at step $t$; what no equation says of step $0$ is $0$" in text


def test_every_letter_of_a_formula_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """In the list behind the formula, or of a formula before, or on the left of an equation."""
    for line in ("", "--phi tanh --block mlp", "--phi relu --optimizer adam", "--phi tanh --momentum 0.9"):
        text = printed(capsys, f"{line} --latex")
        bodies = re.findall(r"\\begin\{aligned\}(.*?)\\end\{aligned\}", text, re.S)
        lists = "\n".join(re.findall(r"^Here .*$", text, re.M))
        lefts = "\n".join(part.partition("&=")[0] for body in bodies for part in body.split("\\\\")) + "".join(
            part.partition(":=")[0] for body in bodies for part in body.split("\\\\"))
        letters = set(re.findall(r"\\(?:Gamma|xi|chi|rho|kappa|phi|beta|epsilon|alpha|gamma|delta|ell|theta)\b",
                                 "".join(bodies)))
        explained = lists + lefts + (r"\beta\epsilon" if "adam" in line else "")
        assert letters and not {letter for letter in letters if letter not in explained}


def test_kronecker_and_gradients_are_told_apart() -> None:
    found = tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling())))
    words = {several: said for several, said in symbols(found.setting, [value for _, value, _ in found.written()])}
    assert "Kronecker" in words[(r"\delta_{a b}",)] and "no learning rates" in words[("r, r'",)]
    of_kets = dict(symbols(found.setting, [p.statement.value for p in found.setting.program.locations()]))
    assert "no Kronecker delta" in of_kets[(r"\delta x",)]
    x, dx, u, W, t, T = (*(Family(Vector, name) for name in ("x", "dx", "u")), Family(Matrix, "W"),
                         *sp.symbols("t T", integer=True, nonnegative=True))
    body = (Loop(t, sp.Integer(0), T - 1, [Assign(x[t], MatVec(W(), u())), Assign(dx[t], MatVec(W(), x[t]))]),)
    own = Setting.of(Program("own", (u(),), (W(),), (), body, (T,)))
    assert not any("gradient" in said for _, said in symbols(own, [MatVec(W(), x[t]), dx[t]]))
    batch = tp.program(tp.ResNet("tanh"), tp.Adam(), tp.DepthScaling(), batch=True)
    said = dict(symbols(tp.kets(batch).setting, [p.statement.value for p in batch.locations()]))
    assert said[("i",)] == "a sample of the batch" and said[("k",)] == "a step up to that one"


def test_fragments_are_displays_alone(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--derivation --fragment")
    parts = re.findall(r"\\begingroup\\allowdisplaybreaks\n\\begin\{align\*\}.*?\\end\{align\*\}\n\\endgroup", text,
                       re.S)
    assert r"\documentclass" not in text and len(parts) == text.count(r"\begin{") - text.count(r"\begin{cases}") > 4
    for part in parts:  # a program is one display, so that what is in its loops stands further in than they do
        text = text.replace(part, "")
    assert "&" not in text and all(not line or line.startswith("%") for line in text.splitlines())


def test_other_samples_are_explained() -> None:
    found = tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling(), batch=True))
    explained = dict(symbols(found.setting, [e.value for e in found.equations]))
    assert explained[("i",)] == "a sample of the batch" and explained[("i'",)].startswith("other samples")
    region, = tp.depth_limit(found).regions
    assert ("i'", "i''") in dict(symbols(found.setting, [side for e in region.equations for side in e.sides]))


def test_steps_name_long_functions_as_kets_do(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "--phi relu --optimizer adam --json"))
    defined = [line for line in found["kets"]["latex"].splitlines() if line.startswith(r"\mathcal{Q}_{")]
    name = defined[0].partition(" &= ")[0]
    assert any(name in step["latex"] for step in found["steps"])
    assert not any(r"\mathbb{E}'\left[\frac" in step["latex"] for step in found["steps"])


def test_sums_in_powers_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a norm the mean square is written once; steps say what other names stand for where they first have them."""
    found = json.loads(printed(capsys, "--norm rms --json"))
    lines = found["recursion"]["latex"].split(" \\\\\n")
    named = [line for line in lines if line.startswith(r"\mathcal{Q}_{t}^{l} &= ")]
    assert len(named) == 1 and sum(r"\sqrt{\mathcal{Q}_{t}^{l}}" in line for line in lines) == 2
    assert not any(r"\sqrt{\Gamma" in line for line in lines)
    defined = {line.partition(" &= ")[0] for step in found["steps"] for line in step["latex"].split(" \\\\\n")[1:]}
    written = "".join(step["latex"] for step in found["steps"])
    used = set(re.findall(r"\\mathcal\{[Q-Z]\}_\{[^}]*\}\^\{[^}]*\}", written))
    assert used - defined == {r"\mathcal{Q}_{t}^{l}"} and len(defined) > 1


def test_signs_stand_before_sums() -> None:
    s, L = sp.Symbol("s", integer=True), sp.Symbol("L", positive=True)
    x = Family(Vector, "x")
    total = sp.Sum(-2 * Ket(x[s]) / L, (s, 0, 3))
    assert latex(Ket(x[4]) + total) == r"| x_{4} \rangle - \sum_{s=0}^{3} \frac{2}{L} | x_{s} \rangle"
    assert latex(sp.Sum(total, (L, 1, 2))).startswith(r"- \sum")


def test_what_optimizers_remember_is_explained() -> None:
    found = tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(momentum=0.5), tp.DepthScaling()))
    explained = dict(symbols(found.setting, [e.value for e in found.equations]))
    assert "stand in $W$ at step $t$" in explained[(r"\rho^{W}_{t}", "w^{W}_{t,s}")]


def test_sizes_and_settings_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--optimizer adam --latex")
    assert r"$\beta_{1}$, $\beta_{2}$, $\epsilon$: the optimizer" in text and "$T$: the number of steps" in text
    assert r"$\alpha$, $\gamma$: exponents" in text
    assert "settings of these names" not in printed(capsys, "--latex --alpha 1/2 --gamma 1/2")
