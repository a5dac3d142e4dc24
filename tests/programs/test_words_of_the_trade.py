"""What people call things: optimizers as PyTorch names them, activations and methods in any case."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.models.activations import activation
from tpcalc.reports.cli import main

TASK = tp.Task([1.0, 0.5, -0.3], [1.0, -1.0, 0.2])


def test_betas_are_beta1_and_beta2() -> None:
    assert tp.Adam(0.1, betas=(0.8, "0.95")) == tp.Adam(0.1, 0.8, "0.95")
    with pytest.raises(ValueError, match="betas: got .* with beta1, beta2"):
        tp.Adam(beta1=0.8, betas=(0.8, 0.95))
    with pytest.raises(ValueError, match="betas: got 1.5; expected a number of at least 0 and less than 1"):
        tp.Adam(betas=(0.5, 1.5))


def test_adamw_is_adam_with_a_decay() -> None:
    assert tp.AdamW().weight_decay == 0.01 and tp.AdamW() != tp.Adam(weight_decay=0.01)  # other values, one update
    runs = [tp.train(tp.ResNet(), TASK, opt, tp.DepthScaling(), 4, 16) for opt in (
        tp.AdamW(0.1, weight_decay=0.5), tp.Adam(0.1, weight_decay=0.5), tp.Adam(0.1))]
    assert np.array_equal(runs[0].outputs, runs[1].outputs) and not np.array_equal(runs[0].outputs, runs[2].outputs)


def test_silu_is_h_times_its_sigmoid() -> None:
    h = sp.Symbol("h", real=True)
    assert activation("silu")(h).subs(h, 1).evalf() == pytest.approx(1 / (1 + np.exp(-1)))
    own = h / (1 + sp.exp(-h))
    runs = [tp.train(tp.ResNet(phi), TASK, tp.SGD(0.5), tp.DepthScaling(), 4, 16) for phi in ("SiLU", own)]
    assert np.allclose(runs[0].outputs, runs[1].outputs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("block", [pytest.param("post_nonlin", marks=pytest.mark.slow), "pre_nonlin"])
def test_silu_is_judged_as_gelu_is(block: str) -> None:
    verdicts = [tp.classify(0.5, 0.5, tp.ResNet(phi, block)).name for phi in ("silu", "gelu")]
    assert verdicts == ["Depth-muP", "Depth-muP"]


def test_case_says_nothing() -> None:
    assert tp.ResNet("ReLU", "MLP") == tp.ResNet("relu", "mlp")
    run = tp.train(tp.ResNet("ReLU"), TASK, tp.SGD(0.5), tp.DepthScaling(), 4, 16, method="Dense")
    assert run.method == "dense" and tp.recipe("CompleteP").name == "completep"
    assert tp.Task([1], [1], loss="MSE").loss == TASK.loss


def test_a_scaling_is_classified_as_its_two_numbers() -> None:
    for alpha, gamma in ((0.5, 0.5), (1, 0), (0.5, 0)):
        found = tp.classify(tp.DepthScaling(alpha, gamma, branch=-2.0, base_depth=8))
        assert found == tp.classify(alpha, gamma)


def test_the_command_line_knows_them(capsys: pytest.CaptureFixture[str]) -> None:
    line = "train --steps 1 --batch 1 --depth 2 --width 4 --optimizer AdamW --phi SiLU --method DENSE --json"
    assert main(line.split()) == 0
    out = capsys.readouterr().out
    assert '"AdamW(' in out and '"dense"' in out
    assert main(["train", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "None" not in text and all(name in text for name in tp.methods.choice.ALIASES)
