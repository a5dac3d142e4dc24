"""Measure the best rate of SGD, Adam, Muon and MuonH against batch size and steps, of a small MLP and a transformer.

    python docs/images/horizon.py train --device cuda --jobs FOLDER    writes horizon.json beside this file
    python docs/images/horizon.py draw                                 draws horizon.svg from it

Fresh samples, a linear schedule to 0, no momentum, no decay. All rates and seeds of one model, optimizer, batch size
and number of steps are one tensor program. A job is a file in FOLDER, and is not made again; --minutes stops between
two jobs. Training needs torch alone. On one thread of a CPU the perceptrons of --which small take eleven minutes, its
transformers half an hour; all that there is takes minutes on a GPU, and days without.
"""

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

HERE = Path(__file__).with_suffix(".json")
SEEDS, TIME, HEADS, LAYERS = 4, 16, 4, 2
RATES = {("mlp", "sgd"): (-9, 2), ("mlp", "adam"): (-11, -2), ("mlp", "muon"): (-8, 0), ("mlp", "muonh"): (-8, 0),
         ("transformer", "sgd"): (-6, 5), ("transformer", "adam"): (-11, -2), ("transformer", "muon"): (-8, 0),
         ("transformer", "muonh"): (-8, 0)}  # powers of 2, every one of them


@dataclass(frozen=True)
class Job:
    """One grid of rates and seeds: ``batch`` counts samples, of a transformer tokens."""

    model: str
    width: int
    optimizer: str
    batch: int
    steps: int

    @property
    def name(self) -> str:
        return f"{self.model}{self.width}-{self.optimizer}-B{self.batch}-T{self.steps}"

    @property
    def rates(self) -> list[float]:
        low, high = RATES[self.model, self.optimizer]
        return [2.0**power for power in range(low, high + 1)]


def jobs(which: str) -> Iterator[Job]:
    """All jobs, those first that one wants most."""
    names = ("muon", "adam", "sgd", "muonh")
    if which == "toy":
        yield from (Job(model, 8, name, 16, 8) for model in ("mlp", "transformer") for name in names)
        return
    # a narrow network: batches at fixed data on both sides of its width, then two other amounts of data
    for data, batches in ((2**14, powers(4, 256)), (2**16, [16, 64, 256]), (2**12, [4, 16, 64])):
        yield from (Job("mlp", 32, name, batch, data // batch) for name in names for batch in batches)
    yield from (Job("mlp", 64, "muon", batch, 2**15 // batch) for batch in powers(8, 512))
    yield from (Job("transformer", 32, name, batch, 2**15 // batch) for name in names for batch in powers(16, 512))
    if which == "small":
        return
    for data, least in ((2**16, 8), (2**14, 8), (2**18, 64)):
        yield from (Job("mlp", 128, name, batch, data // batch) for name in names
                    for batch in powers(least, data // 64))
    for data in (2**18, 2**20):
        yield from (Job("transformer", 64, name, batch, data // batch) for name in names
                    for batch in powers(data // 2**13, min(data // 64, 2**13)))


def powers(low: int, high: int) -> list[int]:
    return [2**k for k in range(low.bit_length() - 1, high.bit_length())]


class MLP:
    """f = W_2 tanh(W_1 x) with inputs, hidden units and outputs of one number; targets of such a network, and noise.

    The teacher's singular values fall like i^(-1/2), its matrices have the norms of the student's. Weights carry an
    axis of replicas, (seeds x rates, n, n); data an axis of seeds.
    """

    NOISE = 2.0

    def __init__(self, n: int, device: str, seeds: int = SEEDS) -> None:
        self.n, self.device, self.seeds = n, device, seeds
        self.teacher = [self._power_law() for _ in range(2)]
        self.test = torch.randn(seeds, 1024, n, device=device)

    def _power_law(self) -> Tensor:
        values = torch.arange(1, self.n + 1, device=self.device, dtype=torch.float32) ** -0.5
        values *= math.sqrt(self.n) / values.norm()
        left, right = (torch.linalg.qr(torch.randn(self.seeds, self.n, self.n, device=self.device))[0]
                       for _ in range(2))
        return left * values @ right

    def weights(self) -> list[Tensor]:
        return [torch.randn(self.seeds, self.n, self.n, device=self.device) / math.sqrt(self.n) for _ in range(2)]

    @staticmethod
    def apply(weights: list[Tensor], x: Tensor) -> Tensor:
        for k, w in enumerate(weights):
            x = (x if k == 0 else torch.tanh(x)) @ w.mT
        return x

    def loss(self, weights: list[Tensor], batch: int, spread: Callable[[Tensor], Tensor]) -> Tensor:
        """Loss of a fresh batch, a number a replica."""
        x = torch.randn(self.seeds, batch, self.n, device=self.device)
        y = self.apply(self.teacher, x)
        y = y + self.NOISE * torch.randn_like(y)
        return (self.apply(weights, spread(x)) - spread(y)).square().sum(-1).mean(-1) / 2

    def risk(self, weights: list[Tensor], spread: Callable[[Tensor], Tensor]) -> Tensor:
        """Mean square distance from the teacher on inputs that nothing was trained on."""
        y = self.apply(self.teacher, self.test)
        return (self.apply(weights, spread(self.test)) - spread(y)).square().mean((-1, -2))


class Transformer:
    """Causal attention and gelu MLPs behind norms, on a language whose next token depends on the last two.

    Embedding and positions are drawn and stay; all matrices are n x n and trained. ``batch`` counts tokens.
    """

    def __init__(self, n: int, device: str, seeds: int = SEEDS) -> None:
        self.n, self.device, self.seeds = n, device, seeds
        self.tables = [1.5 * torch.randn(seeds, n, n, device=device) for _ in range(2)]
        self.embedding, self.positions = torch.randn(seeds, n, n, device=device), torch.randn(seeds, TIME, n,
                                                                                              device=device)
        self.test = self.text(128)
        self.mask = torch.full((TIME, TIME), -math.inf, device=device).triu(1)

    def text(self, sequences: int) -> Tensor:
        """Tokens (seeds, sequences, TIME + 1)."""
        seed = torch.arange(self.seeds, device=self.device)[:, None]
        tokens = [torch.randint(self.n, (self.seeds, sequences), device=self.device) for _ in range(2)]
        while len(tokens) < TIME + 1:
            logits = self.tables[0][seed, tokens[-1]] + self.tables[1][seed, tokens[-2]]
            gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-20, 1 - 1e-7)))
            tokens.append((logits + gumbel).argmax(-1))
        return torch.stack(tokens, -1)

    def weights(self) -> list[Tensor]:
        return [torch.randn(self.seeds, self.n, self.n, device=self.device) / math.sqrt(self.n)
                for _ in range(6 * LAYERS + 1)]

    def logits(self, weights: list[Tensor], tokens: Tensor, spread: Callable[[Tensor], Tensor]) -> Tensor:
        """(replicas, tokens of a batch, n) of the tokens after each."""
        seed = torch.arange(self.seeds, device=self.device)[:, None, None]
        x = spread(self.embedding[seed, tokens] + self.positions[:, None])  # (replicas, sequences, TIME, n)
        r, b, t, n = x.shape
        x = x.reshape(r, b * t, n)
        for layer in range(LAYERS):
            q, k, v, o, up, down = weights[6 * layer:6 * layer + 6]
            y = normed(x)
            heads = [(y @ w.mT).view(r, b, t, HEADS, n // HEADS).transpose(2, 3) for w in (q, k, v)]
            scores = torch.softmax(heads[0] @ heads[1].mT / math.sqrt(n // HEADS) + self.mask, -1)
            x = x + (scores @ heads[2]).transpose(2, 3).reshape(r, b * t, n) @ o.mT
            x = x + F.gelu(normed(x) @ up.mT) @ down.mT
        return normed(x) @ weights[-1].mT

    def loss(self, weights: list[Tensor], batch: int, spread: Callable[[Tensor], Tensor]) -> Tensor:
        tokens = self.text(batch // TIME)
        found = torch.log_softmax(self.logits(weights, tokens[..., :-1], spread), -1)
        return -found.gather(-1, spread(tokens[..., 1:]).flatten(1)[..., None]).mean((-1, -2))

    def risk(self, weights: list[Tensor], spread: Callable[[Tensor], Tensor]) -> Tensor:
        """Divergence from the language, known exactly, on text that nothing was trained on; from the third token on."""
        seed = torch.arange(self.seeds, device=self.device)[:, None, None]
        old = self.test
        true = torch.log_softmax(self.tables[0][seed, old[..., 1:-1]] + self.tables[1][seed, old[..., :-2]], -1)
        true = spread(true).flatten(1, 2)
        found = torch.log_softmax(self.logits(weights, old[..., :-1], spread), -1)
        found = found.unflatten(1, (old.shape[1], TIME))[:, :, 1:].flatten(1, 2)
        return (true.exp() * (true - found)).sum(-1).mean(-1)


def normed(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def polar(m: Tensor) -> Tensor:
    """Five steps of Newton-Schulz, as trainings have them; zero singular values stay about zero."""
    x = m / (m.norm(dim=(-1, -2), keepdim=True) + 1e-20)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def sgd(w: Tensor, gradient: Tensor, state: dict[str, Tensor], rate: Tensor) -> None:
    w.sub_(rate * gradient)


def adam(w: Tensor, gradient: Tensor, state: dict[str, Tensor], rate: Tensor) -> None:
    """Second moments of 20 steps, without momentum; the bias of their start is taken out."""
    state["second"].lerp_(gradient.square(), 0.05)
    state["share"].lerp_(torch.ones_like(state["share"]), 0.05)
    w.sub_(rate * gradient / ((state["second"] / state["share"]).sqrt() + 1e-10))


def muon(w: Tensor, gradient: Tensor, state: dict[str, Tensor], rate: Tensor) -> None:
    w.sub_(rate * polar(gradient))


def muonh(w: Tensor, gradient: Tensor, state: dict[str, Tensor], rate: Tensor) -> None:
    muon(w, gradient, state, rate)
    w.mul_(state["norm"] / w.norm(dim=(-1, -2), keepdim=True))


OPTIMIZERS = {"sgd": sgd, "adam": adam, "muon": muon, "muonh": muonh}


def train(job: Job, device: str) -> list[list[float]]:
    """Risks at the end, (rates, seeds); infinite where a training diverged."""
    torch.manual_seed(1)  # the teacher, the start, and the test are the same in all jobs of a model
    model = (MLP if job.model == "mlp" else Transformer)(job.width, device)
    rates, seeds = job.rates, model.seeds

    def spread(x: Tensor) -> Tensor:
        return x.repeat_interleave(len(rates), 0)

    with torch.no_grad():
        # matrices of one shape are one tensor: an optimizer's step is one program for all
        start = torch.stack([spread(w) for w in model.weights()])
        w = start.clone().requires_grad_()
        rate = torch.tensor(rates, device=device).repeat(seeds)[None, :, None, None]
        state = {"second": torch.zeros_like(w), "share": torch.zeros((), device=device),
                 "norm": w.norm(dim=(-1, -2), keepdim=True).detach().clone()}
        left = torch.ones((), device=device)

    def step() -> None:
        loss = model.loss(list(w.unbind()), job.batch, spread).sum()
        gradient, = torch.autograd.grad(loss, [w])
        with torch.no_grad():
            OPTIMIZERS[job.optimizer](w, gradient, state, rate * left)
            left.sub_(1 / job.steps)

    def reset() -> None:
        with torch.no_grad():
            w.copy_(start)
            state["second"].zero_()
            state["share"].zero_()
            left.fill_(1)

    advance = captured(step) if device.startswith("cuda") else step
    reset()
    torch.manual_seed(hash_of(job))
    for _ in range(job.steps):
        advance()
    with torch.no_grad():
        risk = model.risk(list(w.unbind()), spread)
        risk = torch.where(torch.isfinite(risk), risk, torch.full_like(risk, math.inf))
    return risk.view(seeds, len(rates)).mT.tolist()


def hash_of(job: Job) -> int:
    """A seed of the batches: the same for all optimizers."""
    return 1000003 * job.batch + job.steps


def captured(step: Callable[[], None]) -> Callable[[], None]:
    """The step as one CUDA graph; itself where it cannot be captured."""
    try:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    except RuntimeError as error:
        print("no CUDA graph:", error, flush=True)
        return step
    return graph.replay


def sweep(device: str, folder: Path, minutes: float, which: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    started, wanted = time.monotonic(), list(jobs(which))
    for k, job in enumerate(wanted):
        path = folder / f"{job.name}.json"
        if path.exists():
            continue
        if time.monotonic() - started > 60 * minutes:
            print("out of time; call again for the others")
            break
        begun = time.monotonic()
        found = {**asdict(job), "rates": job.rates,
                 "risk": [[round(r, 7) if r < 1e6 else None for r in row] for row in train(job, device)]}
        path.with_suffix(".part").write_text(json.dumps(found))
        path.with_suffix(".part").rename(path)
        print(f"{k + 1}/{len(wanted)} {job.name} {time.monotonic() - begun:.2f} s", flush=True)
    kept = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json")) if path.stem != HERE.stem]
    text = ",\n".join(json.dumps(one) for one in kept)
    (folder / HERE.name).write_text(f"[{text}]\n")
    if which != "toy":
        HERE.write_text(f"[{text}]\n")
    print(len(kept), "jobs are in", folder / HERE.name)


def draw() -> None:
    """Best rates of the narrow perceptron against the batch size, beside lines whose x is measured at one batch."""
    import matplotlib  # here, since training needs torch alone
    import numpy as np
    from matplotlib.figure import Figure

    import tpcalc as tp
    from tpcalc.studies import HorizonSweep

    matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file
    kept = json.loads(HERE.read_text())
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    for axis, (name, title) in zip(figure.subplots(1, 4), (("sgd", "SGD"), ("adam", "Adam"), ("muon", "Muon"),
                                                           ("muonh", "MuonH"))):
        rows = [one for one in kept if (one["model"], one["width"], one["optimizer"]) == ("mlp", 32, name)]
        risks = [[[math.inf if risk is None else risk for risk in row] for row in one["risk"]] for one in rows]
        sweep = HorizonSweep([one["batch"] for one in rows], [one["steps"] for one in rows], rows[0]["rates"], risks)
        data = sweep.batch_sizes * sweep.steps
        x = sweep.fit(batches=(16, 16)).x
        rule = tp.transfer_rule({"muonh": tp.Muon(sphere=True)}.get(name, name))
        powers = {one.where: float(one.rate.at_fixed_data) for one in rule.regions}
        anchor = float(sweep.optimum[(sweep.batch_sizes == 16) & (data == 2**14)][0])
        for k, amount in enumerate((2**12, 2**14, 2**16)):
            here, color = data == amount, f"C{k}"
            axis.errorbar(sweep.batch_sizes[here], sweep.optimum[here], 2 * sweep.error[here] * sweep.optimum[here],
                          fmt="o", color=color, markersize=4, label=f"D = 2^{round(math.log2(amount))}")
            b = np.geomspace(4, 256, 40)
            low, high = powers.get("below the width", min(powers.values())), max(powers.values())
            line = (np.minimum(b, 32) / 16)**low * np.maximum(b / 32, 1)**high
            axis.plot(b, anchor * (amount / 2**14)**-x * line, color=color, linewidth=1)
        axis.set(xscale="log", yscale="log", xlabel="batch size", title=title)
    figure.axes[0].set_ylabel("best rate")
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(HERE.with_suffix(".svg"), metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["train", "draw"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=Path, default=Path("horizon_jobs"))
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--which", choices=["all", "small", "toy"], default="all")
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    if given.what == "draw":
        draw()
        return
    sweep(given.device, given.jobs, given.minutes, given.which)


if __name__ == "__main__":
    main()
