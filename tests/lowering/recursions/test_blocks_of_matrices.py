"""Linear blocks of k matrices and of a user's own: derived, compiled, and read from the unrolled program."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.nightly import few
from support.closeness import assert_close
from tpcalc.interpreters import read_program_coefficients
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec, Transpose

SCALE = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
XI, Y = np.array([1.0, 0.8, -0.6]), np.array([1.0, -0.7, 0.5])


def there_and_back(b: Branch) -> sp.Expr:
    """W1^T (W2 W1 x + x): a matrix and its transpose, and a skip inside."""
    h = b.let("h", MatVec(b.weights("W1"), b.x))
    return MatVec(Transpose(b.weights("W1")), b.let("z", MatVec(b.weights("W2"), h) + b.x))


NETS = [tp.ResNet(block="mlp", matrices=1), tp.ResNet(block="mlp", matrices=3),
        tp.ResNet(block="mlp", matrices=3, train_embedding_readout=True), tp.ResNet(block=there_and_back)]


@pytest.mark.parametrize("net", few(NETS, NETS[0], NETS[2], NETS[3]), ids=["1", "3", "3, ends", "own"])
@pytest.mark.parametrize("opt", [tp.SGD(0.7), tp.SGD(0.4, momentum=0.5, nesterov=True, weight_decay=0.2)],
                         ids=["plain", "Nesterov, decay"])
def test_compiled_is_coefficients(net: tp.ResNet, opt: tp.SGD) -> None:
    program, point = tp.program(net, opt, SCALE), {"alpha": 0.6, "gamma": 0.5}
    recursion = tp.recursion(tp.kets(program))
    assert all(step.check() for step in recursion.derivation.steps)
    compiled = recursion.compile()
    compiled = replace(compiled, kernel=compiled.kernel.py_func)  # type: ignore[attr-defined]
    theirs = read_program_coefficients(program, {"T": 3, "L": 3}, dict(xi=XI, y=Y, **point)).series("f")
    assert_close(compiled(3, XI, Y, **point).outputs, theirs, 1e-12)
    assert np.abs(theirs[1:]).min() > 1e-6
