"""Claims of a reading, each tested by running the tape again with tensors changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Iterator, Sequence

import torch
from torch import Tensor

from ...errors import NotCovered
from .branch_end import BranchEnd
from .network import RecordedNetwork
from .norms import Norm
from .replay import Change, Values, drawn_values, replay
from .stream import Kind, ResidualStream, StreamBranch
from .tape import Op

EXACT = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}
LARGE = 1000.0  # times its input, at which a norm's eps is to be nothing
DEGREE = 0.05   # of what a norm returns, in the size of its input
TINY = 1e-30
IN_PARAMETERS = "a branch ends in parameters"


@dataclass(frozen=True)
class Claim:
    """One statement on a model, with the number that was measured. holds: whether it is true; about: operation, module
    and parameters."""

    statement: str
    about: str
    measured: float
    holds: bool

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'NO '} {self.statement} ({self.about}): {self.measured:.2g}"


def claims_of(network: RecordedNetwork, ends: dict[tuple[int, int], BranchEnd]) -> list[Claim]:
    """All claims on a network. ends: (stream, branch) -> what the branch is said to end in."""
    found = [*_reproduced(network), *_norms(network)]
    for stream in network.streams:
        for branch in one_of_each_kind(stream):
            found += _branch(network, branch, ends[stream.index, branch.index])
        found += _only_listed(network, stream, ends)
    return found


def one_of_each_kind(stream: ResidualStream) -> list[StreamBranch]:
    """The first branch of every kind, but for those that are the stream itself."""
    found: dict[Kind, StreamBranch] = {}
    for branch in stream.branches:
        if branch.ends.ways != ("stream",):
            found.setdefault((*branch.kind, branch.signature), branch)
    return list(found.values())


def rms_of(value: Tensor) -> float:
    """Root mean square."""
    return float(value.double().square().mean().sqrt()) if value.numel() else 0.0


def tolerance(network: RecordedNetwork, number: int) -> float:
    return EXACT.get(network.tape.layouts[number].dtype, 1e-3)


def _reproduced(network: RecordedNetwork) -> Iterator[Claim]:
    """From parameters and inputs alone, all operations give the output again."""
    tape = network.tape
    if tape.on_meta:
        return
    again = replay(tape, {number: torch.clone for number in (*tape.parameters, *tape.inputs)}, [tape.output])[0]
    before = tape.values[tape.output].detach()
    off = rms_of(again - before) / max(rms_of(before), TINY)
    yield Claim("the tape run again gives the output", tape.ops[-1].place, off, off <= tolerance(network, tape.output))


def multiplied(network: RecordedNetwork, ends: BranchEnd, factor: float) -> dict[int, Change]:
    """Changes that multiply what a branch ends in; gains that are 1 + w as a whole."""
    numbers = {name: number for number, name in network.tape.parameters.items()}
    changes: dict[int, Change] = {}
    for use in ends.carriers:
        if "add" in use.through:
            changes[_made(network, use.op)] = lambda value: value * factor
        elif use.parameter in numbers:
            changes[numbers[use.parameter]] = lambda value: value * factor
    return changes


def _made(network: RecordedNetwork, op: Op) -> int:
    """The tensor made of parameters that an operation reads."""
    return next(number for number in op.inputs if number in network.graph.made)


def values_for(network: RecordedNetwork, branch: StreamBranch) -> Values | None:
    """On a tape without values, what a branch computes from drawn values of the stream; None on others."""
    tape, inside = network.tape, set(branch.ops)
    if not tape.on_meta:
        return None
    reads = {number for i in branch.ops for number in network.graph.signals(tape.ops[i])
             if tape.makers.get(number, -1) not in inside}
    return drawn_values(tape, branch.end, sorted(reads))


def _branch(network: RecordedNetwork, branch: StreamBranch, ends: BranchEnd) -> Iterator[Claim]:
    """A branch halves with its ends and vanishes with them."""
    names = ", ".join(dict.fromkeys(use.parameter for use in ends.carriers)) or "no parameter"
    about = f"{names}; {branch.add.place}"
    if not ends.carriers:
        if ends.norm < 0:
            yield Claim(IN_PARAMETERS, f"{', '.join(ends.ways) or 'nothing'}; {branch.add.place}", math.nan, False)
        return
    values = values_for(network, branch)
    whole, half, none = (replay(network.tape, multiplied(network, ends, c), [branch.end], values)[0]
                         for c in (1.0, 0.5, 0.0))
    scale, exact = max(rms_of(whole), TINY), tolerance(network, branch.end)
    off, rest = rms_of(half - whole / 2) / scale, rms_of(none) / scale
    yield Claim("a branch halves with its ends", about, off, off <= exact)
    yield Claim("a branch vanishes with its ends", about, rest, rest <= exact)


def _norms(network: RecordedNetwork) -> Iterator[Claim]:
    """What is said to be a norm takes a scale away, at 1000 times the activations; one of each kind of place."""
    seen = set()
    for norm in network.norms.values():
        key = network.places.get(norm.op.index, ("",))[:2], norm.op.name, norm.eps
        if key in seen or network.tape.on_meta:
            continue
        seen.add(key)
        yield takes_scale_away(network, norm)


def takes_scale_away(network: RecordedNetwork, norm: Norm) -> Claim:
    """The degree of what a norm returns in its input; eps besides, beside the input's mean square."""
    x = network.tape.values[norm.x].detach()
    sizes = [rms_of(replay(network.tape, {norm.x: x * c}, [norm.op.output])[0]) for c in (LARGE, 2 * LARGE)]
    degree = abs(math.log2(max(sizes[1], TINY) / max(sizes[0], TINY)))
    share = norm.eps / max(rms_of(x)**2, TINY)
    return Claim(f"a norm takes a scale away (eps is {share:.2g} of the mean square)", norm.op.place, degree,
                 degree <= DEGREE)


def _only_listed(network: RecordedNetwork, stream: ResidualStream, ends: dict[tuple[int, int], BranchEnd]
                 ) -> Iterator[Claim]:
    """With all ends at zero, the stream moves only by its norms and factors: no addition changes it."""
    tape, changes = network.tape, {}
    for branch in stream.branches:
        if branch.ends.ways != ("stream",):
            changes.update(multiplied(network, ends[stream.index, branch.index], 0.0))
    if not changes or tape.on_meta:
        return
    sums = [(branch.stream, branch.add) for branch in stream.branches if branch.ends.ways != ("stream",)]
    values = replay(tape, changes, [number for before, add in sums for number in (before, add.output)])
    worst, where = 0.0, sums[0][1] if sums else tape.ops[0]
    for (start, add), before, after in zip(sums, values[::2], values[1::2]):
        usual = rms_of(tape.values[add.output].detach() - tape.values[start].detach())
        moved = rms_of(after - before) / max(usual, TINY)
        if moved > worst:
            worst, where = moved, add
    exact = tolerance(network, stream.path.values[-1])
    yield Claim("with ends at zero, the stream moves by nothing but its norms and factors", where.place, worst,
                worst <= exact)


def require(claims: Sequence[Claim]) -> None:
    """Raise ``NotCovered`` for the first claim that does not hold."""
    for claim in claims:
        if not claim.holds and claim.statement == IN_PARAMETERS:
            raise NotCovered(f"{claim.about}: got a model in which it does not hold that {claim.statement}; expected "
                             "branches that are as large as a matrix, a gain or a table at their end")
        if not claim.holds:
            raise NotCovered(f"{claim.about}: got a model in which it does not hold that {claim.statement} "
                             f"(measured {claim.measured:.2g}); expected roles= for what was misread")
