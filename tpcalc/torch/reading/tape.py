"""``Tape``: every aten operation of one forward pass, with its tensors."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge
from torch.nn import Module as Model
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from ...errors import NotCovered
from ...groups.names import plain_name
from ..streams import output_of, run_on, tensors_of

ASKED = "_local_scalar_dense"  # what .item() and bool() of a tensor come to
Arguments = tuple[tuple[object, ...], dict[str, object]]


@dataclass(frozen=True)
class Ref:
    """Stands for a tensor in recorded arguments; number: of the tensor on the tape."""

    number: int


@dataclass(frozen=True)
class Layout:
    """Where a tensor lies in its memory."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    memory: int
    dtype: torch.dtype

    @property
    def is_floating(self) -> bool:
        return bool(self.dtype.is_floating_point or self.dtype.is_complex)


@dataclass(frozen=True)
class Op:
    """One operation. call: None where the tape itself notes that memory was written under another name."""

    index: int
    name: str
    call: Callable[..., object] | None
    arguments: Arguments
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    module: str
    writes: bool = False

    @property
    def output(self) -> int:
        """Number of its first tensor, -1 where it returns none."""
        return self.outputs[0] if self.outputs else -1

    def argument(self, i: int) -> int:
        """Number of the tensor that is its i-th argument, -1 where that is none."""
        given = self.arguments[0]
        one = given[i] if i < len(given) else None
        return one.number if isinstance(one, Ref) else -1

    def numbers(self) -> list[float]:
        """Plain numbers among its arguments."""
        positional, named = self.arguments
        return [float(a) for a in (*positional, *named.values()) if isinstance(a, (int, float))
                and not isinstance(a, bool)]

    @property
    def place(self) -> str:
        """Operation and module, as messages name them."""
        return f"{self.name} in {self.module or 'the model'}"


@dataclass
class Tape:
    """Operations in order, and what is known of every tensor by its number.

    values: number -> tensor, with what it held when it was made; layouts: number -> shape and strides; makers: number
    -> the operation that made it; parameters: number -> name; returned: number -> modules that returned it; answers:
    what ``.item()`` said, in order; edges: number of a tensor that was written over -> its place in torch's own graph;
    output: number of the model's output; on_meta: whether values are absent.
    """

    ops: list[Op] = field(default_factory=list)
    values: dict[int, Tensor] = field(default_factory=dict)
    layouts: dict[int, Layout] = field(default_factory=dict)
    makers: dict[int, int] = field(default_factory=dict)
    parameters: dict[int, str] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: set[int] = field(default_factory=set)
    returned: dict[int, list[str]] = field(default_factory=dict)
    answers: list[object] = field(default_factory=list)
    edges: dict[int, object] = field(default_factory=dict)
    output: int = -1
    on_meta: bool = False

    def maker(self, number: int) -> Op | None:
        """The operation that made a tensor; None for parameters, buffers, inputs and constants."""
        index = self.makers.get(number)
        return None if index is None else self.ops[index]

    def shape(self, number: int) -> tuple[int, ...]:
        return self.layouts[number].shape

    def differentiable(self, number: int) -> object:
        """What ``torch.autograd.grad`` takes for a tensor; None where no gradient goes through it."""
        if number in self.edges:
            return self.edges[number]
        return self.values[number] if self.values[number].requires_grad else None

    def is_floating(self, number: int) -> bool:
        return self.layouts[number].is_floating

    def stopped(self) -> list[Op]:
        """Operations in front of the output at which gradients stop, as ``detach`` and what runs without them, but not
        within functions whose own backward pass is the derivative of their forward pass."""
        from .own_gradients import own_derivatives
        found, front, seen, own = dict[int, Op](), [self.output], set[int](), own_derivatives(self)

        def passes(numbers: Sequence[int]) -> bool:
            return any(self.is_floating(one) and self.differentiable(one) is not None for one in numbers)

        while front:
            number = front.pop()
            op = self.maker(number)
            if number in seen or op is None:
                continue
            seen.add(number)
            if own.get(number):
                front += own[number]
                continue
            if number in own or self.is_floating(number) and not passes([number]) and passes(op.inputs):
                found[op.index] = op
            front += op.inputs
        return [found[index] for index in sorted(found)]


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Writes a tape while it is entered."""

    def __init__(self, tape: Tape, answers: Sequence[object] | None = None) -> None:
        super().__init__()
        self.tape, self.given = tape, answers
        self.known: dict[int, int] = {}                # id of a tensor -> its number
        self.names_of: dict[int, list[int]] = {}       # memory -> numbers of tensors that lie in it
        self.modules: list[str] = []

    def number(self, tensor: Tensor) -> int:
        found = self.known.get(id(tensor))
        return self.new(tensor) if found is None else found

    def new(self, tensor: Tensor) -> int:
        number = self.known[id(tensor)] = len(self.tape.layouts)
        self.tape.values[number] = tensor  # kept alive, so that its id stays its own
        memory = tensor.untyped_storage()._cdata
        self.tape.layouts[number] = Layout(tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset(), memory,
                                           tensor.dtype)
        self.names_of.setdefault(memory, []).append(number)
        return number

    def take(self, values: object) -> None:
        """Note what the model is given."""
        self.tape.inputs.update(self.number(one) for one in tensors_of(values) if id(one) not in self.known)

    def __torch_dispatch__(self, call: object, types: object, args: tuple[object, ...] = (),
                           kwargs: dict[str, object] | None = None) -> object:
        assert callable(call)
        if self.tape.output >= 0:  # what is done with outputs is no part of the model
            return call(*args, **(kwargs or {}))
        schema = call._schema  # type: ignore[attr-defined]
        name = schema.name.split("::")[1].rstrip("_")  # what writes in place is called like what does not
        leaves, form = tree_flatten((args, kwargs or {}))
        leaves = [Ref(self.number(one)) if isinstance(one, Tensor) else one for one in leaves]
        arguments: Arguments = tree_unflatten(leaves, form)
        inputs = tuple(one.number for one in leaves if isinstance(one, Ref))
        before = self._kept(inputs) if schema.is_mutable else {}
        if name == ASKED and self.given is not None:
            result = self._answer(args)
        else:
            result = call(*args, **(kwargs or {}))
        if name == ASKED:
            self.tape.answers.append(result)
        made = tuple(map(self.new, tensors_of(result)))
        self._append(name, call, arguments, inputs, made, bool(schema.is_mutable))
        op = self.tape.ops[-1]
        for number, value in before.items():
            self._rename(number, value, op)
        return result

    def _append(self, name: str, call: Callable[..., object] | None, arguments: Arguments, inputs: tuple[int, ...],
                outputs: tuple[int, ...], writes: bool = False) -> None:
        index = len(self.tape.ops)
        self.tape.ops.append(Op(index, name, call, arguments, inputs, outputs, self.modules[-1] if self.modules else "",
                                writes))
        self.tape.makers.update((number, index) for number in outputs)

    def _answer(self, args: tuple[object, ...]) -> object:
        """What another run was told at this place; without one, that all is as it should be."""
        asked = len(self.tape.answers)
        if self.given is not None and asked < len(self.given):
            return self.given[asked]
        if isinstance(args[0], Tensor) and args[0].dtype == torch.bool:
            return True
        raise NotCovered(f"{self.modules[-1] if self.modules else 'the model'}: got .item() of a tensor without values;"
                         " expected models whose forward pass at the target asks for no more than that of the base")

    def _kept(self, inputs: tuple[int, ...]) -> dict[int, Tensor]:
        """Copies of all that lies in memory that an operation may write to; old numbers keep them."""
        kept = {}
        for memory in {self.tape.layouts[number].memory for number in inputs}:
            for number in self.names_of.get(memory, []):
                tensor = self.tape.values[number]
                if self.known.get(id(tensor)) == number:
                    kept[number] = tensor
                    if tensor.grad_fn is not None:
                        self.tape.edges[number] = get_gradient_edge(tensor)
                    self.tape.values[number] = tensor.detach().clone()
        return kept

    def _rename(self, number: int, tensor: Tensor, op: Op) -> None:
        """What lies in memory that was written gets a new number, made of the old one and of what was written."""
        layouts = self.tape.layouts
        if self.known.get(id(tensor)) == number and op.outputs and layouts[number].memory == layouts[op.output].memory:
            self._append("written", None, ((Ref(number), Ref(op.output)), {}), (number, op.output), (self.new(tensor),))

    @contextmanager
    def names(self, model: Model) -> Iterator[None]:
        """While it is entered, the module that runs is known, and what modules return."""
        names = {id(module): name for name, module in model.named_modules()}

        def leave(module: Model, args: object, output: object) -> None:
            name = self.modules.pop()
            for one in tensors_of(output):
                self.tape.returned.setdefault(self.number(one), []).append(name)

        enter = register_module_forward_pre_hook(lambda module, args: self.modules.append(names.get(id(module), "?")))
        handle = register_module_forward_hook(leave)
        try:
            yield
        finally:
            enter.remove()
            handle.remove()

    @contextmanager
    def one_run(self, model: Model) -> Iterator[None]:
        """While it is entered, what the model is given and returns is known, of its first run."""
        def leave(module: Model, args: object, output: object) -> None:
            if self.tape.output < 0:
                self.tape.output = self.number(output_of(output))

        enter = model.register_forward_pre_hook(lambda module, *given: self.take(given), with_kwargs=True)
        handle = model.register_forward_hook(leave)
        try:
            yield
        finally:
            enter.remove()
            handle.remove()


def record(model: Model, batch: object, answers: Sequence[object] | None = None) -> Tape:
    """The tape of ``model(batch)``, or ``model(**batch)`` for a dictionary, as in evaluation but with statistics of the
    batch in batch norms.

    answers: what ``.item()`` is to say, for models on the meta device. Raises ``NotCovered`` where none is left.
    """
    return record_call(in_evaluation(model), lambda: run_on(model, batch), batch, answers)[0]


def in_evaluation(model: Model) -> Model:
    """The model in evaluation, but with statistics of the batch in batch norms."""
    model.eval()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.train()
    return model


def record_call(model: Model, call: Callable[[], object], batch: object,
                answers: Sequence[object] | None = None) -> tuple[Tape, object]:
    """The tape of the first time that ``call`` runs the model, which stays in its mode, and what ``call`` returns.

    Raises ``NotCovered`` where it does not run it.
    """
    tape = Tape(on_meta=any(p.is_meta for p in model.parameters()))
    recorder = Recorder(tape, answers)
    for name, parameter in ((plain_name(name), one) for name, one in model.named_parameters()):
        tape.parameters[recorder.number(parameter)] = name
        tape.shapes[name] = tuple(parameter.shape)
    for buffer in model.buffers():
        recorder.number(buffer)
    recorder.take(batch)
    with recorder.names(model), recorder.one_run(model), torch.enable_grad(), recorder:
        returned = call()
    if tape.output < 0:
        raise NotCovered("loss: got one that does not call the model; expected a function that calls model(...)")
    return tape, returned
