"""The training of a linear residual network as a Tensor Program."""

from tpcalc.ledger import Entry

from ..._line import kets

ENTRY = Entry(
    key="tensor_programs_vi/program_1",
    kind="definition",
    title="training a linear residual network by SGD",
    source="Tensor Programs VI, Program 1",
    says="$U$ and $nV$ have independent entries $N(0, 1)$, every $W_0^l$ independent entries $N(0, 1/n)$; one input "
         "$\\xi_t$ and one output $f_t$ a step, read-in and read-out frozen, $\\alpha = \\gamma = 1/2$.",
    statement=lambda: kets().setting.program,
)
