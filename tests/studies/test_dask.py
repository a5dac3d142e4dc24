"""Sweeps on a real Dask cluster of processes: a client is an executor, and results are those of one process."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.ledger import check, entries

distributed = pytest.importorskip("dask.distributed")
pytestmark = pytest.mark.slow
TASK, NET, OPT, SCALE = tp.Task([1.0, 0.8], [1.0, -0.7]), tp.ResNet(), tp.SGD(0.5), tp.DepthScaling()


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            yield client


def test_sweeps(client: Any, tmp_path: Any) -> None:
    asked = NET, TASK, OPT, [SCALE, tp.DepthScaling(1, 0)], [2, 4, 8], np.geomspace(0.1, 2.0, 7)
    alone = tp.transfer(*asked)
    for _ in range(2):  # one sweep leaves the next in order
        assert np.array_equal(tp.transfer(*asked, client, tmp_path).losses, alone.losses)
    assert np.array_equal(tp.transfer(*asked, client).losses, alone.losses)


def test_convergence_and_batches(client: Any) -> None:
    alone = tp.convergence(NET, TASK, OPT, SCALE, [2, 4, 8])
    assert np.array_equal(tp.convergence(NET, TASK, OPT, SCALE, [2, 4, 8], client).outputs, alone.outputs)
    runs = [tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, 2, method=tp.methods.Particles(
        samples=64, batches=3, executor=executor)) for executor in (client, None)]
    assert runs[0] == runs[1]


def test_the_ledger(client: Any) -> None:
    keys = ["gaussian/isserlis", "gaussian/conditioning"]
    found, alone = (check(entries(), keys, executor=executor) for executor in (client, None))
    assert found.statuses == alone.statuses and not found.failures
