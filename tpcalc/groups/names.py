"""Names of parameters: the number in them that counts layers, and the pattern that is left without it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, partial
from typing import Callable, Collection, Iterable, Mapping

from .._checks import short
from ..errors import NotCovered
from ..tune.parameters import Shape as Shape

DIGITS = re.compile(r"\d+")
WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")  # what wrappers add to names


@cache
def plain_name(name: str) -> str:
    """A parameter's name without what torch.compile, DDP, FSDP and checkpointing add to it."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS).removeprefix("module.")


def without_module(name: str) -> str:
    """The plain name without "module" anywhere in it, as wrappers of single modules add it."""
    return ".".join(part for part in plain_name(name).split(".") if part != "module")


def renamed(given: Collection[str], known: Collection[str]) -> Callable[[str], str]:
    """The function that makes known names of given ones, and of those of their modules: it takes away what wrappers
    add, and what stands in front of all of them. Where that makes no known names of all, wrappers alone are taken away.

    >>> rename = renamed(["net.module.emb.weight", "net.h.0._orig_mod.weight"], ["emb.weight", "h.0.weight"])
    >>> rename("net.h.0._orig_mod.weight"), rename("net.h.0")
    ('h.0.weight', 'h.0')
    """
    for plain in (plain_name, without_module):
        parts = [plain(name).split(".")[:-1] for name in given]
        shared = next((k for k, same in enumerate(zip(*parts)) if len(set(same)) > 1), min(map(len, parts), default=0))
        for k in range(shared + 1):
            rename = partial(_after, plain, k)
            if {rename(name) for name in given} <= set(known):
                return rename
    return plain_name


def _after(plain: Callable[[str], str], skipped: int, name: str) -> str:
    return ".".join(plain(name).split(".")[skipped:])


@dataclass(frozen=True)
class LayerCount:
    """How names number layers: ``stem``, then a number; base, target: the number of layers at the two sizes."""

    stem: str
    base: int
    target: int

    @property
    def multiplier(self) -> float:
        """The depth of the target over that of the base."""
        return self.target / self.base

    def pattern(self, name: str) -> str:
        """The name with a star for its layer."""
        return DIGITS.sub("*", name[len(self.stem):], count=1).join((self.stem, "")) if self.index(name) >= 0 else name

    def index(self, name: str) -> int:
        """The layer that a name has in it; -1 outside of layers."""
        found = DIGITS.match(name, len(self.stem)) if self.stem and name.startswith(self.stem) else None
        return -1 if found is None else int(found[0])


def find_layers(base: Mapping[str, Shape], target: Mapping[str, Shape]) -> LayerCount:
    """The numbers of which the target has more, or fewer, than the base; without any, those that repeat in both.

    Raises ``ValueError`` where two lists of layers differ in how much they grow, where layers of one list are not of
    one kind, and where names differ that no number explains.
    """
    grown = {stem: LayerCount(stem, *counts) for stem, counts in count_numbers(base, target).items()
             if counts[0] != counts[1] and 0 not in counts}
    first = {stem: one for stem, one in grown.items()
             if not any(stem != other and stem.startswith(other) for other in grown)}
    if len(first) > 1:
        raise ValueError(f"base, target: got lists of layers {', '.join(map(repr, first))}, which all grow; expected "
                         "one list of layers")
    layers = next(iter(first.values())) if first else _repeated(base)
    _require_one_kind(layers, target)
    patterns = [{layers.pattern(name) for name in shapes} for shapes in (base, target)]
    if odd := sorted(patterns[0] ^ patterns[1]):
        raise ValueError(f"{odd[0]}: in one of base and target alone; expected models that differ in how many "
                         "layers they have and in how wide they are")
    return layers


def count_numbers(base: Iterable[str], target: Iterable[str]) -> dict[str, tuple[int, int]]:
    """What stands in front of numbers in names -> how many numbers there are behind it in each model."""
    found: dict[str, list[set[str]]] = {}
    for i, names in enumerate((base, target)):
        for name in names:
            for digits in DIGITS.finditer(name):
                found.setdefault(name[:digits.start()], [set(), set()])[i].add(digits[0])
    return {stem: (len(one), len(other)) for stem, (one, other) in found.items()}


def _repeated(shapes: Mapping[str, Shape]) -> LayerCount:
    """Layers of a model that does not grow in depth: the first numbers behind which the most names are repeated."""
    candidates = []
    for stem, (count, _) in count_numbers(shapes, shapes).items():
        layers = LayerCount(stem, count, count)
        try:
            _require_one_kind(layers, shapes)
        except NotCovered:
            continue
        if count > 1 and stem.endswith("."):
            candidates.append(layers)
    return max(candidates, key=lambda one: sum(one.index(name) >= 0 for name in shapes), default=LayerCount("", 1, 1))


def _require_one_kind(layers: LayerCount, shapes: Mapping[str, Shape]) -> None:
    """Raise ``NotCovered`` unless parameters of all layers have the names and shapes of the first layer's."""
    kinds: dict[int, dict[str, Shape]] = {}
    for name, shape in shapes.items():
        if (index := layers.index(name)) >= 0:
            kinds.setdefault(index, {})[layers.pattern(name)] = shape
    for index, kind in kinds.items():
        if odd := sorted(set(kind.items()) ^ set(kinds[min(kinds)].items())):
            name = odd[0][0].replace("*", str(index), 1)
            raise NotCovered(f"{name}: got layers of one list that differ ({layers.stem}{min(kinds)} and "
                             f"{layers.stem}{index}); expected layers with parameters of the same names and shapes")


def growth_of_most(ratios: Iterable[float]) -> float:
    """By how much the width grows: the factor that most growing dimensions have."""
    return max(Counter(ratio for ratio in ratios if ratio != 1).items(), key=lambda one: one[1], default=(1.0, 0))[0]


def shapes_of(name: str, value: object) -> dict[str, Shape]:
    """``value`` as a dictionary from names of parameters to shapes; ``ValueError`` for anything else."""
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{name}: got {short(value)}; expected a mapping from names of parameters to shapes")
    found: dict[str, Shape] = {}
    for key, shape in value.items():
        sizes = tuple(shape) if isinstance(shape, Iterable) and not isinstance(shape, str) else None
        if not isinstance(key, str) or sizes is None or not all(isinstance(n, int) and n > 0 for n in sizes):
            raise ValueError(f"{name}: {short(key)}: got {short(shape)}; expected names and tuples of whole "
                             "numbers of at least 1")
        found[key] = sizes
    return found
