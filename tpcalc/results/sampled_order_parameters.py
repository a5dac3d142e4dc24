"""Order parameters of networks that are known by samples: of every batch, by what W(0) makes of what it met."""

from __future__ import annotations

import numpy as np

from ..interpreters.training import BlockRecord
from ..interpreters.vectors import numpy_function
from ..models.activations import H as ONE, activation
from ..training.initial_products import first_product
from ..training.raw_problem import RawProblem
from .order_parameters import Fields, MatrixFields, Numbers, indexed
from .responses import responses
from .run import Run
from .units import Units


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
