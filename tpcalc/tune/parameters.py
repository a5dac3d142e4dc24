"""A parameter of a model at two sizes: what it does there, and by how much what it is grows."""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, ...]
MATRICES = ("input", "tied", "hidden", "branch output", "output", "router", "expert", "convolution", "token mixing",
            "stream matrix", "fixed matrix")
VECTORS = ("gain", "bias", "branch scale", "stream factor", "scale", "table", "recurrence")
UNREAD = ("stream mixing", "unused", "not understood")
SHARES, OF_ALL, FREE = "shares", "shares of all", "free"  # of gates
ROLES = (*MATRICES, *VECTORS, *UNREAD)  # names and shapes tell the first ones of both kinds; a reading tells all


@dataclass(frozen=True)
class ParameterGrowth:
    """By how much fan-in, fan-out and the depth of a parameter's stream grow; and, which a reading alone tells, what
    the forward pass multiplies its product with, at_head: the same where a tied matrix is the head; as_base: whether it
    is left as it is; visits: how often the forward pass comes back to it, where layers are visited several times;
    experts, active: how many experts there are, and act, where it is of one or chooses them; gates: how large what
    multiplies an expert is, "shares" of those that act, "shares of all" or "free"; by_itself: whether it is added as
    it is, whatever the data are, as positions and class tokens are that no module looks up."""

    fan_in: float = 1.0
    fan_out: float = 1.0
    depth: float = 1.0
    forward: float = 1.0
    at_head: float = 1.0
    as_base: bool = False
    visits: float = 1.0
    experts: float = 1.0
    active: float = 1.0
    gates: str = ""
    by_itself: bool = False


@dataclass(frozen=True)
class Parameter:
    """All parameters of one pattern. role: one of ``ROLES``; in_layers: whether there is one a layer; width: by how
    much its growing dimensions grow, 1 where none does; names: of the target's; base_names: of the base's; module: that
    it belongs to."""

    pattern: str
    role: str
    in_layers: bool
    shape: Shape
    width: float
    names: tuple[str, ...]
    grows: tuple[bool, ...] = ()
    of_output: bool = False  # a bias of the head, or what a branch ends in besides a matrix of this role
    head: str | None = None  # the module that is the head, where it is tied to an embedding
    base_names: tuple[str, ...] = ()
    use: ParameterGrowth = ParameterGrowth()

    @property
    def module(self) -> str:
        """The pattern without the parameter's own name."""
        return self.pattern.rpartition(".")[0]

    @property
    def is_matrix(self) -> bool:
        return self.role not in VECTORS

    @property
    def decays(self) -> bool:
        """Has it weight decay? Vectors, positions and class tokens have none."""
        return self.is_matrix and not self.use.by_itself
