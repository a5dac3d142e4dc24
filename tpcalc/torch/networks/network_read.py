"""``NetworkRead``: what a reading says a model is, as a network of this package, and what stands outside of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isclose
from typing import Callable, Mapping

from ..._shown import Short
from ...errors import NotCovered
from ...models import ResNet, Transformer
from ...models.attention import softmax_attention
from ...models.networks import OF_NORMS
from ...models.parallel import ParallelBlock
from ...models.skips import Skip
from ...programs.blocks import bias_name, preactivated
from ..reading.kinds_of_ops import MOVES, SUMS
from ..reading.network import NOWHERE, RecordedNetwork
from ..reading.roles import Role
from ..reading.stream import ResidualStream, StreamBranch
from ..reading.tape import Op
from .branches import MULTIPLIED, BlockRead, BranchReader
from .functions import NORM_VALUES, Phi, activation_between
from .heads import TABLE
from .segments import CLOSE, Segment, as_written, factor_between

HOW = {"gather": "rows looked up"}
AVERAGES = frozenset(["mean", "sum"])  # of positions, which no output of a network is made of


def before_stream(recorded: RecordedNetwork, stream: ResidualStream) -> list[str]:
    """What stands in front of the stream besides matrices and sums, a sentence each."""
    found = []
    for op in recorded.tape.ops:
        if recorded.places.get(op.index) != ("in", stream.index, -1) or not recorded.graph.is_activation(op.output):
            continue
        uses = [use for use in recorded.uses if use.op.index == op.index]
        found += [f"{use.parameter}, {HOW.get(use.how, use.how)} in front of the stream" for use in uses
                  if use.how != "matrix"]
        if not uses and op.call is not None and op.name not in MOVES | SUMS:
            found.append(f"{op.place}, in front of the stream")
    return found


def after_stream(recorded: RecordedNetwork, roles: Mapping[str, Role], stream: ResidualStream) -> tuple[Phi, list[str]]:
    """The activation that the readout acts on, and what else stands behind the stream, a sentence each."""
    tape, x = recorded.tape, stream.path.values[stream.last + 1]
    matrices = {use.op.index for use in recorded.uses if use.how == "matrix"}
    heads = [k for k, index in enumerate(stream.path.ops) if k > stream.last and index in matrices]
    if not heads:
        return "linear", ["no readout"]
    head, into = tape.ops[stream.path.ops[heads[0]]], stream.path.values[heads[0]]
    found = [f"{use.parameter}, bias" for use in recorded.uses if use.how == "bias" and use.op.index == head.index]
    phi: Phi | None = None
    try:
        segment = Segment(recorded, roles, [x], into)
        value, read = pair = (drawn := segment.draw(x)), segment(drawn)
        large = segment.draw(x, tails=True)
        phi = None if segment.norms else activation_between(pair, (large, segment(large)))
        norm = next((name for name, normed in NORM_VALUES.items() if name and factor_between(
            normed(value), read)), None) if value.numel() == read.numel() else None
        if phi is None:
            found.insert(0, f"{f'{norm} norm' if norm else segment} behind the stream")
    except NotCovered:
        found.insert(0, f"{_named([tape.ops[i] for i in sorted(recorded.graph.cone(into, {x}))])} behind the stream")
    rest = _named([tape.ops[i] for i in stream.path.ops[heads[0] + 1:]])
    return "linear" if phi is None else phi, [*found, *([f"{rest} behind the readout"] if rest else [])]


def _named(ops: list[Op]) -> str:
    return ", ".join(dict.fromkeys(op.name for op in ops if op.call is not None and op.name not in MOVES - AVERAGES))


Starred = Callable[[str], str]
BY_POSITION = frozenset(["rotation", "score_table"])
TRAINED = "their training, which train_embedding_readout=True has"


@dataclass(frozen=True, repr=False)
class NetworkRead(Short):
    """A model as a network. network: a ``tp.ResNet`` or ``tp.Transformer``, for ``tp.classify``, ``tp.kets``,
    ``tp.program``; depth, width: of the model; matrices: {matrix of the network, or bias of its product: pattern of the
    model's parameters}; multipliers: {matrix: the number that the model multiplies its product with}, those that are
    not 1; left_out: what the model has besides, a sentence each.

    The network of these matrices W and the branch multiplier eps computes what the model does, without what is left
    out, where each W is the model's parameter times its multiplier, over eps for the last matrix of a branch, and so is
    its bias. Where a norm stands behind a branch or the stream, eps is the multiplier "branch", or 1. Inputs are
    vectors of one 1 where the model looks rows up.
    """

    network: ResNet | Transformer
    depth: int
    width: int
    matrices: Mapping[str, str]
    multipliers: Mapping[str, float]
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.network.title}, {self.depth} layers of width {self.width}", repr(self.network)]
        lines += [f"{name}: {pattern}" + (f", times {self.multipliers[name]:.6g}" if name in self.multipliers else "")
                  for name, pattern in self.matrices.items()]
        return "\n".join([*lines, *(f"left out: {one}" for one in self.left_out)])


def network_read(recorded: RecordedNetwork, roles: Mapping[str, Role], inside: set[int],
                 starred: Starred) -> NetworkRead:
    """The network of a recorded model. roles: by parameter; inside: branches that are layers; starred: a name as a
    pattern. Raises ``NotCovered``, naming operation and module, for a branch or a stream that none has."""
    if stopped := recorded.tape.stopped():
        raise NotCovered(f"{stopped[0].place}: got numbers whose gradients stop there; expected functions whose "
                         "derivatives are their own, as those of networks")
    stream = _one_stream(recorded, inside)
    groups = _groups(stream)
    at = [*(group[0].reads[0] for group in groups), stream.last + 1]
    _require_read_at_its_end(recorded, stream, at[0])
    blocks = [BranchReader(recorded, roles, group, stream.path.values[before], stream.path.values[after]).read()
              for group, before, after in zip(groups, at, at[1:])]
    blocks, by_layer = _without_tables_by_layer(blocks)
    kinds = [block.kind for block in blocks]
    size = 2 if "attention" in kinds and set(kinds) != {"attention"} else 1
    if len(blocks) % size:
        raise NotCovered(f"make: got branches {', '.join(kinds)}; expected layers that are alike")
    layer = blocks[:size]
    for number, block in enumerate(blocks):
        if not block.is_like(layer[number % size]):
            raise NotCovered(f"branch {number} ({groups[number][0].add.place}): got {block}, and "
                             f"{layer[number % size]} in branch {number % size}; expected layers that are alike")
    width = recorded.tape.shape(stream.path.values[at[0]])[-1]
    phi, beside = after_stream(recorded, roles, stream)
    attends = not {"attention", "parallel"}.isdisjoint(kinds)
    if attends and phi != "linear":
        beside.insert(0, f"{phi} behind the stream")
    network = _with_biases(_transformer(layer, width) if attends else _resnet(layer[0], phi), layer)
    names: dict[str, dict[str, None]] = defaultdict(dict)
    left: dict[str, None] = {}
    for number, block in enumerate(blocks):
        for name, parameter in block.matrices.items():
            names[_own(network, block, name)][starred(parameter)] = None
        for name, parameter in block.biases_of.items():
            own = bias_name(_own(network, block, name))
            names[own][starred(parameter)] = None
            if name == "Wk" and own not in network.vectors_of_block:
                left[f"{starred(parameter)}, in keys, which softmax forgets"] = None
        for name, what in block.left_out.items():
            left[f"{starred(name)}, {what}" if name in roles else f"{what}, {starred(name)}"] = None
    eps = max((norm.eps for norm in recorded.norms.values()), default=0.0)
    sizes = [one for block in layer for one in _sizes(block, width)]
    left.update(dict.fromkeys([*by_layer, *sizes, *before_stream(recorded, stream), *beside,
                               *([f"eps of norms, at most {eps:.2g}"] if eps else []), *_tied(roles),
                               *_not_as_trained(recorded, roles, blocks, starred),
                               *_not_as_started(recorded, blocks, starred)]))
    multipliers = {_own(network, block, name): value for block in layer for name, value in block.multipliers.items()
                   if not isclose(value, 1, rel_tol=CLOSE)}
    return NetworkRead(network, len(blocks) // size, width, {
        name: ", ".join(patterns) for name, patterns in sorted(names.items())}, multipliers, tuple(left))


def _with_biases(network: ResNet | Transformer, layer: list[BlockRead]) -> ResNet | Transformer:
    """The network with the biases that its layers have."""
    named = {_own(network, block, name) for block in layer for name in block.biases if name != OF_NORMS}
    names = [name for name in network.matrices_of_block if name in named]
    shifted = all(OF_NORMS in block.biases for block in layer)
    found = replace(network, biases=True) if names else network
    if len(names) < len(network.matrices_of_block) or shifted != found.shifts_normed:
        found = replace(network, biases=(*names, *[OF_NORMS] * shifted))
    return found


def _without_tables_by_layer(blocks: list[BlockRead]) -> tuple[list[BlockRead], list[str]]:
    """Branches without tables of scores where these differ by layer, which is then said."""
    tables = {dict(block.options).get("score_table") for block in blocks if block.kind in ("attention", "parallel")}
    if len(tables) < 2:
        return blocks, []
    return [replace(block, options=tuple(one for one in block.options if one[0] != "score_table"))
            for block in blocks], [f"{TABLE}, another one in every layer"]


def _one_stream(recorded: RecordedNetwork, inside: set[int]) -> ResidualStream:
    """The stream, of which every branch is a layer, or half of one, and reads it where the one before has added."""
    stream = recorded.streams[0]
    if len(recorded.streams) != 1 or not stream.branches:
        raise NotCovered(f"make: got a model of {len(recorded.streams)} residual streams with "
                         f"{len(stream.branches)} branches on the first; expected one with branches")
    for branch in stream.branches:
        before = stream.branches[branch.index - 1] if branch.index else None
        if before and branch.index in inside and _is_beside(before, branch):
            continue
        got = ("one that is no layer" if branch.index not in inside else
               "one that reads the stream at several places" if len(branch.reads) != 1 else
               "one that reads the stream where the branch before is not added yet"
               if before and branch.reads[0] <= before.where else "")
        if got or branch.reads[0] > branch.where:
            raise NotCovered(f"branch {branch.index} ({branch.add.place}): got {got}; expected branches one after the "
                             "other")
    return stream


def _is_beside(before: StreamBranch, branch: StreamBranch) -> bool:
    """Does a branch read the stream where the one before does, or what that one makes of it, as its norm?"""
    return branch.reads in (before.reads, ()) and branch.where > before.where


def _groups(stream: ResidualStream) -> list[list[StreamBranch]]:
    """Branches that read the stream at one point, before any of them is added, together."""
    groups: list[list[StreamBranch]] = []
    for branch in stream.branches:
        if groups and _is_beside(groups[-1][0], branch):
            groups[-1].append(branch)
        else:
            groups.append([branch])
    return groups


def _require_read_at_its_end(recorded: RecordedNetwork, stream: ResidualStream, start: int) -> None:
    """Between layers a stream is read by branches alone, and not by outputs of their own, or a mean of all layers."""
    between = set(stream.path.values[start:stream.last + 1])
    for op in recorded.tape.ops:
        behind = recorded.places.get(op.index, NOWHERE).part == "out"
        if behind and between.intersection(recorded.graph.activations(op)):
            raise NotCovered(f"{op.place}: got something beside branches that reads the stream between layers; "
                             "expected outputs of the stream behind all of them")


def _around(block: BlockRead) -> dict[str, object]:
    """Options of what is around a block."""
    options: dict[str, object] = {"norm": block.norm, "gains": block.gains}
    if block.norm is not None:
        options["norm_position"] = block.position
    if not isclose(block.keep, 1, rel_tol=CLOSE):
        options["skip"] = Skip(as_written(block.keep))
    return options


def _whole(ratio: object) -> int:
    """A hidden width over that of the stream, as a whole number."""
    assert isinstance(ratio, Fraction)
    return max(1, round(ratio))


def _resnet(block: BlockRead, readout: Phi) -> ResNet:
    options = dict(block.options)
    phi, matrices, around = options["phi"], options.get("matrices"), {**_around(block), "readout": readout}
    if block.kind == "glu":
        return ResNet(phi, "glu", mlp_ratio=_whole(options["ratio"]), **around)  # type: ignore[arg-type]
    if block.kind == "preactivated":
        own = "pre_nonlin" if matrices == 1 else preactivated(matrices)  # type: ignore[arg-type]
        return ResNet(phi, own, **around)  # type: ignore[arg-type]
    if matrices == 1:
        return ResNet("linear", "post_nonlin", **around)  # type: ignore[arg-type]
    ratio = _whole(options["ratio"]) if matrices == 2 else 1
    return ResNet(phi, "mlp", matrices=matrices, mlp_ratio=ratio, **around)  # type: ignore[arg-type]


def _transformer(layer: list[BlockRead], width: int) -> Transformer:
    attention, *second = layer
    if attention.kind == "parallel":
        return _parallel(attention, width)
    if attention.kind != "attention" or second and second[0].kind not in ("mlp", "glu"):
        raise NotCovered(f"make: got layers of {', '.join(block.kind for block in layer)}; expected attention, and an "
                         "mlp or a glu after it")
    around = _around(attention)
    multipliers = [block.multipliers.get(MULTIPLIED, 1.0) for block in layer]
    if second and (_around(second[0]) != around or not isclose(*multipliers, rel_tol=CLOSE)):
        raise NotCovered(f"make: got {attention} and {second[0]}; expected the same norms and skips "
                         "around both")
    options = dict(attention.options)
    inner = options.pop("inner")
    if inner == width:
        options["heads"] = inner // options["head_dim"]  # type: ignore[operator]
    own = dict(second[0].options) if second else {}
    if own.get("matrices", 2) != 2:
        raise NotCovered(f"make: got perceptrons of {own['matrices']} matrices beside attention; expected 2")
    mlp = {"mlp": second[0].kind, "phi": own["phi"], "mlp_ratio": _whole(own["ratio"])} if second else {"mlp": None}
    return Transformer(**options, **mlp, **around)  # type: ignore[arg-type]


def _parallel(block: BlockRead, width: int) -> Transformer:
    options = dict(block.options)
    own = {name: options[name] for name in ("head_dim", "scale_power", "causal", "qk_norm", "queries_per_key", *(
        BY_POSITION & set(options)))}
    attention = softmax_attention(**own)  # type: ignore[arg-type]
    both = ParallelBlock(attention, str(options["mlp"]), _whole(options["ratio"]))
    if options["inner"] == width:
        own["heads"] = width // options["head_dim"]  # type: ignore[operator]
    own = {name: own[name] for name in ("heads", "head_dim", "causal") if name in own}
    return Transformer(**own, positions=options["positions"], mlp=None,  # type: ignore[arg-type]
                       phi=options["phi"], attention=both, **_around(block))  # type: ignore[arg-type]


def _own(network: ResNet | Transformer, block: BlockRead, name: str) -> str:
    """The network's name of a matrix of a block."""
    if name != "last" or block.kind in ("attention", "glu"):
        return {"attention": "Wo", "glu": "W3"}[block.kind] if name == "last" else name
    matrices = dict(block.options)["matrices"]
    return "W" if len(network.matrices_of_block) == 1 else f"W{matrices}"


def _sizes(block: BlockRead, width: int) -> list[str]:
    """Widths within a branch that the network has otherwise."""
    options, found = dict(block.options), []
    if "ratio" in options and options.get("matrices", 2) == 2 and options["ratio"] != _whole(options["ratio"]):
        found.append(f"hidden width, {float(options['ratio']):.4g} times the stream's, "  # type: ignore[arg-type]
                     f"which is {_whole(options['ratio'])} times it in the network")
    if options.get("inner", width) != width:
        found.append(f"width of all heads together, {options['inner']}, which is the stream's in the network")
    return found


def _not_as_trained(recorded: RecordedNetwork, roles: Mapping[str, Role], blocks: list[BlockRead],
                    starred: Starred) -> list[str]:
    """Parameters that train here and not in the network, and the other way round, a sentence each."""
    trains = {name: recorded.tape.values[number].requires_grad for number, name in recorded.tape.parameters.items()}
    left_out = {name for block in blocks for name in block.left_out}
    gains = [use.parameter for use in recorded.uses if use.how == "gain" and recorded.place(use).part in (
        "stream", "branch") and use.parameter not in left_out]
    counts: dict[str, list[bool]] = defaultdict(list)
    named = [name for block in blocks for name in (*block.matrices.values(), *_biases(block))]
    for name in dict.fromkeys([*named, *gains]):
        counts[starred(name)].append(trains[name])
    found = [f"{pattern}, frozen" + (f" in {each.count(False)} of {len(each)} layers" if any(each) else "")
             + ", which trains in the network" for pattern, each in counts.items() if not all(each)]
    outside = [trains[role.name] for role in roles.values() if role.kind in ("input", "tied", "output")]
    return [*found, *([f"embedding and readout: {TRAINED}"] if any(outside) else [])]


def _not_as_started(recorded: RecordedNetwork, blocks: list[BlockRead], starred: Starred) -> list[str]:
    """Biases that start otherwise than at 0, as those of the network do, a sentence each."""
    tape, largest = recorded.tape, defaultdict[str, float](float)
    names = [name for block in blocks for name in _biases(block)]
    if tape.on_meta:
        return [f"{pattern}, which starts at 0 in the network, and is not known here, without values"
                for pattern in dict.fromkeys(map(starred, names))]
    numbers = {name: number for number, name in tape.parameters.items()}
    for name in names:
        if name not in recorded.zeros:
            value = float(tape.values[numbers[name]].detach().abs().max())
            largest[starred(name)] = max(largest[starred(name)], value)
    return [f"{pattern}, which starts at up to {value:.2g}, and at 0 in the network"
            for pattern, value in largest.items() if value > 0]


def _biases(block: BlockRead) -> tuple[str, ...]:
    """Parameters that are biases of the network, too."""
    return (*block.biases_of.values(), *block.behind_norms)


def _tied(roles: Mapping[str, Role]) -> list[str]:
    return [f"{role.name} is embedding and readout, which tied=True has" for role in roles.values()
            if role.kind == "tied"]
