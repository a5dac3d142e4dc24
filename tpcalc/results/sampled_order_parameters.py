"""Order parameters of networks that are known by samples: of every batch, by what W(0) makes of what it met.

Response functions of a network known by samples: what Stein's lemma and causality leave of two overlaps.

With chi = W phi and xi = W^T g for one Gaussian matrix W of entries N(0, 1/n), rows being (step, input),

    chi = u + A g,    xi = r + B phi,    <u u> = Phi = <phi phi>,    <r r> = G = <g g>,

so that the one overlap M_ts = <chi_t g_s> = <phi_t xi_s> is A G + Phi B^T: A has entries of earlier steps alone, B
those of the same step too; triangular factors of Phi and G part the two. No derivative is taken, no W is needed.
Source: Depthwise Hyperparameter Transfer, (36) and (37) [depthwise_transfer/responses]. They fall like the root of
the depth [depthwise_transfer/response_sizes].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..interpreters.training import BlockRecord
from ..interpreters.vectors import numpy_function
from ..models.activations import H as ONE, activation
from ..training.initial_products import first_product
from ..training.raw_problem import RawProblem
from .order_parameters import Fields, MatrixFields, Numbers, indexed
from .run import Run
from .units import Units

SAME = 1e-9  # of a variance: what is left of a row that is a combination of rows before it
NONE = 1e-18  # of the largest variance: that of a row that is 0


class Responses(NamedTuple):
    """A = <d phi_t / d r_s> and B = <d g_t / d u_s> of one matrix, (N, N) each."""

    A: np.ndarray
    B: np.ndarray


def responses(overlap: np.ndarray, features: np.ndarray, gradients: np.ndarray, batch: int) -> Responses:
    """Part M = A G + Phi B^T into A and B.

    overlap: M, (N, N); features, gradients: Phi and G, (N, N), positive semidefinite; batch: rows of a step. Rows that
    are combinations of rows before them, such as inputs that are repeated or 0 to rounding, add nothing: what they do
    counts with the rows that they are made of.
    """
    kept_f, of_f = _independent(features)
    kept_g, of_g = _independent(gradients)
    if not kept_f or not kept_g:
        return Responses(np.zeros_like(overlap), np.zeros_like(overlap))
    lower_f = np.linalg.cholesky(features[np.ix_(kept_f, kept_f)])
    lower_g = np.linalg.cholesky(gradients[np.ix_(kept_g, kept_g)])
    inner = np.linalg.solve(lower_f, np.linalg.solve(lower_g, overlap[np.ix_(kept_f, kept_g)].T).T)
    earlier = np.array(kept_g)[None, :] // batch < np.array(kept_f)[:, None] // batch
    found_a = lower_f @ np.linalg.solve(lower_g.T, (inner * earlier).T).T
    found_b = (np.linalg.solve(lower_f.T, inner * ~earlier) @ lower_g.T).T
    A, B = np.zeros_like(overlap), np.zeros_like(overlap)
    A[:, kept_g], B[:, kept_f] = of_f @ found_a, of_g @ found_b
    return Responses(A, B)


def _independent(covariance: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Rows that are no combinations of those before, and all rows in terms of them, (N, kept)."""
    n, none = len(covariance), NONE * np.max(np.diag(covariance), initial=0.0)
    kept, terms = list[int](), np.zeros((n, n))
    for a in range(n):
        inside = covariance[np.ix_(kept, kept)]
        weights = np.linalg.solve(inside, covariance[kept, a]) if kept else np.zeros(0)
        left = covariance[a, a] - weights @ covariance[kept, a]
        if covariance[a, a] > none and left > SAME * covariance[a, a]:
            terms[a, len(kept)] = 1.0
            kept.append(a)
        else:
            terms[a, :len(kept)] = weights
    return kept, terms[:, :len(kept)]


def of_batch(run: Run, raw: RawProblem | None, record: BlockRecord) -> tuple[Numbers, Fields]:
    """The order parameters of one batch of samples, or of one real network; raises ``ValueError`` for inputs whose loss
    derivative vanishes."""
    task, stream, units = run.task, record.stream, Units.of(run, raw, record.stream.outputs)
    x, delta, chi = stream.x, stream.delta, units.chi
    assert x is not None and delta is not None and run.depth is not None
    rows = task.targets.shape[:-1]  # (steps, batch[, positions])
    if len(rows) > 2:  # losses of all positions reach the stream at each of them
        of = np.ones_like(chi)
    elif np.all(chi):
        of = chi
    else:
        step, sample = divmod(int(np.argmin(np.abs(chi))), task.batch)
        raise ValueError(f"run: the loss derivative of step {step}, input {sample} vanishes, so that its gradient is "
                         "not known")
    g = delta / of[:, None]
    size = run.depth * run.problem.depth_scaling.multiplier(run.depth) / units.c
    numbers: Numbers = {("", "f"): units.f, ("", "Delta"): units.Delta, ("", "H"): overlaps(x), ("", "G"): overlaps(g)}
    body, fields = np.zeros((len(chi), len(chi))), dict[str, MatrixFields]()

    def sites(vectors: np.ndarray) -> np.ndarray:
        return vectors.reshape(len(vectors), *rows, vectors.shape[-1])

    for name, one in record.matrices.items():
        gradients, back = (vectors / of[:, None] for vectors in (one.gradients, one.xi))
        Phi, G = overlaps(one.features), overlaps(gradients)
        pairs = [responses(*known, len(chi) // task.steps) for known in zip(overlaps(one.chi, gradients), Phi, G)]
        A, B = (np.array([getattr(pair, letter) for pair in pairs]) for letter in "AB")
        numbers.update({(name, "Phi"): Phi, (name, "G"): G, (name, "A"): size * A, (name, "B"): size * B})
        fields[name] = MatrixFields(sites(one.chi), sites(one.chi - A @ gradients), sites(back),
                                    sites(back - B @ one.features))
        body += np.mean(Phi * G, axis=0)
    first = first_product(run.problem.net).name
    Phi = np.concatenate([numbers[first, "Phi"], overlaps(record.last_features[None])])
    read = overlaps(_read(run, x[-1]))
    numbers["", "Phi"] = Phi
    if len(rows) == 2:
        numbers["", "K"] = with_embedding_readout(run, body, read, numbers["", "G"][0])
    return indexed(numbers, rows), Fields(sites(x), sites(g), fields)


def _read(run: Run, end: np.ndarray) -> np.ndarray:
    """What the readout acts on, of the stream at the last node."""
    net = run.problem.net
    return end if net.reads_stream else np.asarray(numpy_function(activation(net.readout)(ONE), (ONE,))(end))


def overlaps(one: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
    """Means of products over sites, (..., N, N)."""
    found: np.ndarray = one @ np.swapaxes(one if other is None else other, -1, -2) / one.shape[-1]
    return found


def with_embedding_readout(run: Run, body: np.ndarray, last: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The tangent kernel with what trained embedding and readout add: the kernel of what the readout acts on, and of
    the gradients at the start."""
    if not run.problem.net.train_embedding_readout:
        return body
    inputs = run.task.inputs.reshape(-1, run.task.d_in)
    return body + last + first * (inputs @ inputs.T)


def means(batches: list[Numbers]) -> tuple[Numbers, Numbers]:
    """The means over batches, and their standard errors where there are several."""
    values = {key: np.array([one[key] for one in batches]) for key in batches[0]}
    spread = len(batches)**-0.5
    errors = {key: spread * np.std(one, axis=0, ddof=1) for key, one in values.items()} if len(batches) > 1 else {}
    return {key: np.mean(one, axis=0) for key, one in values.items()}, errors


def joined_fields(parts: list[Fields]) -> Fields:
    """The samples of all batches, one after the other."""
    def all_of(fields: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(fields, axis=-1)
    matrices = {name: MatrixFields(*(all_of([getattr(part.matrices[name], letter) for part in parts])
                                     for letter in ("chi", "u", "xi", "r"))) for name in parts[0].matrices}
    return Fields(all_of([part.h for part in parts]), all_of([part.g for part in parts]), matrices)
