"""Whole derivations as LaTeX, against files that a reader has looked at.

After a change that is meant: ``python tests/golden/test_golden.py`` writes them anew; read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.action.densities import derive_densities, derive_densities_of_kernels

SCALE = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
FOLDER = Path(__file__).parent


def written() -> dict[str, str]:
    """File names and what belongs in them."""
    recursion = tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), SCALE)))
    tanh = tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), SCALE))
    names = sp.symbols("eta beta_1 beta_2 epsilon", positive=True)
    adam = tp.kets(tp.program(tp.ResNet(train_embedding_readout=True), tp.Adam(*names), SCALE))
    return {"program-1.tex": tp.program(tp.ResNet(), tp.SGD(), SCALE).latex(), "lemma-d1.tex": recursion.latex(),
            "lemma-d1-derivation.tex": recursion.derivation.latex(), "tanh-kets.tex": tanh.latex(),
            "tanh-kets-reasons.tex": tanh.derivation.latex(reasons=True), "adam-kets.tex": adam.latex(),
            "densities.tex": derive_densities_of_kernels().latex(),
            "densities-derivation.tex": derive_densities_of_kernels().derivation.latex(),
            "densities-tanh.tex": derive_densities(tp.ResNet("tanh")).latex(),
            "densities-glu.tex": derive_densities(tp.ResNet("tanh", "glu", norm="rms")).latex(),
            "depth-limit.tex": tp.depth_limit(recursion).at(alpha=0.5, gamma=0.5).latex()}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return written()


@pytest.mark.parametrize("name", ["program-1.tex", "lemma-d1.tex", "lemma-d1-derivation.tex", "tanh-kets.tex",
                                  "tanh-kets-reasons.tex", "adam-kets.tex", "densities.tex",
                                  "densities-derivation.tex", "densities-tanh.tex", "densities-glu.tex",
                                  "depth-limit.tex"])
def test_latex_is_what_was_read(name: str, texts: dict[str, str]) -> None:
    assert texts[name] + "\n" == (FOLDER / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    for file, text in written().items():
        (FOLDER / file).write_text(text + "\n", encoding="utf-8")
