"""Fifty correct scripts and twenty faults that people make in them, for audits and depth checks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn

import tpcalc.torch as tpt
from support.pytorch.torch_models import GPT, ResMLP

BASE, DEPTHS, WORDS, SEEDS = 4, (4, 16), 64, 3
Make = Callable[[int], Any]


def like_llama(name: str, **more: Any) -> Make:
    """A causal language model of transformers whose configuration has LLaMA's names."""
    def make(depth: int) -> Any:
        import transformers
        config = getattr(transformers, name + "Config")(**{**dict(
            vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=depth, num_attention_heads=2,
            num_key_value_heads=1, head_dim=16, max_position_embeddings=16, pad_token_id=0, bos_token_id=1,
            eos_token_id=2, use_cache=False, initializer_range=0.1), **more})
        return getattr(transformers, name + "ForCausalLM")(config)
    return make


def gpt2(depth: int) -> Any:
    import transformers
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=WORDS, n_embd=32, n_layer=depth, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=0,
        use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))


def mlp(**given: Any) -> Make:
    return lambda depth: ResMLP(depth, 48, **given)


def gpt(**given: Any) -> Make:
    return lambda depth: GPT(depth, 32, **given)


MLPS = {f"MLP {act.__name__} {matrices}{' norm' * norm}": mlp(act=act, matrices=matrices, norm=norm)
        for act, matrices, norm in itertools.product((nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU), (1, 2), (False, True))}
GPTS = {"GPT": gpt(), "GPT tied": gpt(tied=True), "GPT shared keys": gpt(kv_heads=1), "GPT ReLU": gpt(act=nn.ReLU)}
HUGGING = {"GPT-2": gpt2, "Llama": like_llama("Llama"), "Llama tied": like_llama("Llama", tie_word_embeddings=True),
           **{name: like_llama(name) for name in ("Qwen2", "Qwen3", "Mistral", "Gemma", "Olmo", "Phi3")},
           "Gemma2": like_llama("Gemma2", query_pre_attn_scalar=16)}
MODELS = {**MLPS, **GPTS, **HUGGING}
RATES = {"sgd": 0.1, "momentum": 0.1, "adam": 1e-3, "adamw": 1e-3}
SETTINGS = [*itertools.product(("depth-mup", "ode"), RATES), ("completep", "adamw"), ("completep", "adam")]


@dataclass(frozen=True)
class Case:
    """A planned script: what it makes, by which recipe it is carried from the base, with which optimizer."""

    name: str
    recipe: str
    optimizer: str

    def family(self) -> Any:
        return tpt.plan(lambda depth: MODELS[self.name](depth), dict(depth=BASE), recipe=self.recipe,
                        optimizer=self.optimizer)

    def trainer(self, family: Any) -> Any:
        if self.optimizer == "momentum":
            return family.trainer(lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9), lr=0.1)
        decay = {} if self.optimizer == "adam" else {"weight_decay": 0.1}
        return family.trainer(lr=RATES[self.optimizer], **decay)

    def __str__(self) -> str:
        return f"{self.name}, {self.recipe}, {self.optimizer}"


def cases() -> list[Case]:
    """Every model with one setting, and twenty with another; all settings in turn."""
    first = list(MODELS)
    again = [*first[::2], *first[1:10:2]][:50 - len(first)]
    return [Case(name, *SETTINGS[(3 * first.index(name) + k) % len(SETTINGS)])
            for k, names in enumerate((first, again)) for name in names]


def shifted(make: Any, seed: int) -> Any:
    """What is made from other initial values."""
    def made(**config: Any) -> Any:
        torch.manual_seed(torch.initial_seed() + 1000 * seed)
        return make(**config)
    return made


def batch_of(name: str, seed: int) -> Any:
    draw = torch.Generator().manual_seed(seed)
    if name.startswith("MLP"):
        return torch.randn(16, 5, generator=draw)
    return torch.randint(17 if name.startswith("GPT ") or name == "GPT" else WORDS, (4, 8), generator=draw)


@dataclass(frozen=True)
class Fault:
    """What people do to a planned script. group: changes the settings of a parameter, given what the plan says of it
    and how much deeper the model is than the base; model: changes the model; named: of other models than ``SPOILT``."""

    name: str
    group: Callable[[dict[str, Any], Any, float], None] = lambda group, entry, ratio: None
    model: Callable[[Any, Any, float], None] = lambda model, plan, ratio: None
    named: tuple[str, ...] = ()
    kind: Any = torch.optim.AdamW

    def script(self, name: str) -> tuple[Any, Any]:
        """make and optimizer, by Depth-muP and AdamW."""
        family = Case(name, "depth-mup", "adamw").family()

        def make(depth: int) -> Any:
            model = family(depth=depth)
            with torch.no_grad():
                self.model(model, family.at(depth=depth), depth / BASE)
            model.ratio = depth / BASE
            return model

        def optimizer(model: Any) -> Any:
            plan = family.at(depth=round(model.ratio * BASE))
            groups, names = [], {id(p): key for key, p in model.named_parameters()}
            for group in plan.groups(model, lr=1e-3, weight_decay=0.1, eps=1e-8):
                for p in group["params"]:
                    groups.append({**group, "params": [p]})
                    self.group(groups[-1], plan.entry(names[id(p)]), model.ratio)
            return self.kind(groups, lr=1e-3)

        return make, optimizer


def times(key: str, power: Callable[[Any], float]) -> Callable[[dict[str, Any], Any, float], None]:
    """A setting times a power of the ratio, which may depend on what the plan says of the parameter."""
    def change(group: dict[str, Any], entry: Any, ratio: float) -> None:
        group[key] *= ratio**power(entry)
    return change


def plain(key: str, is_meant: Callable[[Any], bool]) -> Callable[[dict[str, Any], Any, float], None]:
    """The base's setting, of some parameters."""
    def change(group: dict[str, Any], entry: Any, ratio: float) -> None:
        if is_meant(entry):
            group[key] /= entry.factor(key)
    return change


def again(key: str, how_often: float) -> Callable[[dict[str, Any], Any, float], None]:
    """The plan's factor so many times more."""
    def change(group: dict[str, Any], entry: Any, ratio: float) -> None:
        group[key] *= entry.factor(key)**how_often
    return change


def is_last(entry: Any) -> bool:
    return bool(entry.parameter.role == "branch output")


def inside(entry: Any) -> bool:
    return bool(entry.parameter.in_layers)


def is_vector(entry: Any) -> bool:
    return len(entry.parameter.shape) < 2


def is_first(entry: Any) -> bool:
    """Of a layer's matrices the one that is named first."""
    return bool(entry.parameter.pattern in FIRST)


def ends_times(power: float, is_meant: Callable[[str], bool] = lambda name: True) -> Callable[[Any, Any, float], None]:
    """Last matrices of branches times a power of the ratio."""
    def change(model: Any, plan: Any, ratio: float) -> None:
        for name, p in model.named_parameters():
            if is_last(plan.entry(name)) and is_meant(name):
                p.mul_(ratio**power)
    return change


def layers_of(model: Any) -> Any:
    return getattr(model, "layers", None) or getattr(model, "h", None) or model.model.layers


def on_the_skip(model: Any, plan: Any, ratio: float) -> None:
    """The multiplier is on the stream, and not on what is added."""
    ends_times(0.5)(model, plan, ratio)
    for layer in layers_of(model):
        if isinstance(model, ResMLP):
            model.skip = ratio**-0.5
        elif hasattr(layer, "skip"):
            layer.skip = ratio**-0.5
        else:
            layer.register_forward_pre_hook(lambda _, given: (given[0] * ratio**-0.5, *given[1:]))


def lost(model: Any, plan: Any, ratio: float) -> None:
    """A buffer of multipliers holds what its memory held."""
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if weight is not None and any(p is weight and is_last(plan.entry(key)) for key, p in model.named_parameters()):
            module.register_buffer("multiplier", torch.zeros(()))
            module.register_forward_hook(lambda module, _, out: module.multiplier * out)


def in_front_of_norms(model: Any, plan: Any, ratio: float) -> None:
    """What multiplies behind a norm is made a part of the matrix in front of it."""
    for module in model.modules():
        module._forward_hooks.clear()
    for name, p in model.named_parameters():
        if name.endswith(("attn.proj.weight", "mlp.2.weight", "o_proj.weight", "down_proj.weight")):
            p.mul_(ratio**-0.5)


MODELS |= {"GPT normed behind": gpt(after=True), "GPT ReLU normed behind": gpt(after=True, act=nn.ReLU)}
BEHIND = ("GPT normed behind", "GPT ReLU normed behind", "Gemma2")
FIRST = ("layers.*.1.weight", "h.*.attn.qkv.weight", "model.layers.*.self_attn.q_proj.weight")
SPOILT = ("MLP GELU 2 norm", "GPT", "Llama")
FAULTS = (
    Fault("the rate of one matrix is not scaled", plain("lr", is_first)),
    Fault("no rate is scaled", plain("lr", inside)),
    Fault("rates are upside down", again("lr", -2)),
    Fault("rates are scaled twice", again("lr", 1)),
    Fault("the head's rate is scaled like hidden ones", times("lr", lambda e: -0.5 * (e.parameter.role == "output"))),
    Fault("the input's rate is scaled like hidden ones", times("lr", lambda e: -0.5 * (e.parameter.role == "input"))),
    Fault("rates of vectors are not scaled", plain("lr", lambda e: is_vector(e) and inside(e))),
    Fault("eps is forgotten", plain("eps", inside)),
    Fault("eps is upside down", again("eps", -2)),
    Fault("decay is left", plain("weight_decay", inside)),
    Fault("decay is coupled", kind=torch.optim.Adam),
    Fault("last matrices shrink twice", model=ends_times(-0.5)),
    Fault("no multiplier", model=ends_times(0.5)),
    Fault("multipliers are upside down", model=ends_times(1.0)),
    Fault("multiplier of the other recipe", model=ends_times(-0.5), group=times("lr", lambda e: -0.5 * is_last(e))),
    Fault("multipliers are on the skip", model=on_the_skip),
    Fault("a buffer is lost by to_empty", model=lost),
    Fault("scale in front of a norm", model=in_front_of_norms, named=BEHIND),
    Fault("layers behind the first miss their multiplier", model=ends_times(0.5, lambda name: ".0." not in name)),
    Fault("a schedule sets one rate", lambda group, entry, ratio: group.update(lr=1e-3)),
)
