"""Models read as networks: the network computes what the model does, or the model is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.errors import NotCovered
from tpcalc.interpreters.training import _program
from tpcalc.programs.blocks import STARTS
from tpcalc.theory import ParallelBlock, alibi, softmax_attention

torch = pytest.importorskip("torch")
tpt = pytest.importorskip("tpcalc.torch")
models = pytest.importorskip("support.pytorch.network_models")
usual = pytest.importorskip("support.pytorch.torch_models")
others = pytest.importorskip("support.pytorch.reading_models")

F, Options = torch.nn.functional, models.Options
DEPTH, WIDTH = 3, 12


def relu_squared(x: Any) -> Any:
    return torch.relu(x)**2


TABLE = np.random.default_rng(3).normal(size=(1, 4, 4))
ONE_TABLE = TABLE - TABLE.diagonal(axis1=1, axis2=2)[..., None]  # which is that as softmax has it
SAME = {  # options of the model, and what the network is
    "mlp": (Options(phi=torch.tanh, m=0.5), tp.ResNet("tanh", "mlp")),
    "wide": (Options(phi=torch.relu, ratio=3), tp.ResNet("relu", "mlp", mlp_ratio=3)),
    "three": (Options(phi=torch.tanh, mlp="deep"), tp.ResNet("tanh", "mlp", matrices=3)),
    "activation first": (Options(phi=torch.tanh, mlp="preactivated", norm="rms"), None),
    "linear": (Options(phi=torch.tanh, mlp="pre", keep=0.9), tp.ResNet("tanh", "pre_nonlin", skip=tp.Skip(keep=0.9))),
    "glu": (Options(mlp="glu", phi=F.silu, ratio=2, norm="rms"), tp.ResNet(block="swiglu", norm="rms", mlp_ratio=2)),
    "post": (Options(phi=torch.tanh, norm="layer", position="post", gains=True),
             tp.ResNet("tanh", "mlp", norm="layer", norm_position="post", gains=True)),
    "output": (Options(norm="rms", position="output", m=0.5),
               tp.ResNet("gelu", "mlp", norm="rms", norm_position="output")),
    "gpt": (Options(heads=2, keys=2, fused=True, norm="layer", ratio=2, gains=True),
            tp.Transformer(heads=2, head_dim=6, positions=4, norm="layer", gains=True, mlp_ratio=2)),
    "llama": (Options(heads=4, keys=2, norm="rms", mlp="glu", phi=F.silu, gains=True, m=0.25),
              tp.Transformer(heads=4, head_dim=3, positions=4, mlp="swiglu", queries_per_key=2, gains=True)),
    "encoder": (Options(heads=3, keys=3, causal=False, norm="layer", position="post", phi=torch.relu),
                tp.Transformer(heads=3, head_dim=4, positions=4, norm="layer", norm_position="post", causal=False,
                               phi="relu")),
    "qk norm": (Options(heads=2, keys=1, norm="rms", position="sandwich", qk_norm=True, scale=1 / 6, mlp=""),
                tp.Transformer(heads=2, head_dim=6, positions=4, mlp=None, norm_position="sandwich", qk_norm=True,
                               scale_power=1, queries_per_key=2)),
    "rotary": (Options(heads=2, keys=1, norm="rms", rotated="half", m=0.5),
               tp.Transformer(heads=2, head_dim=6, positions=4, queries_per_key=2, rotation=100.0)),
    "rotary pairs": (Options(heads=2, keys=2, norm="rms", rotated="pairs", qk_norm=True, causal=False, scale=1 / 6),
                     tp.Transformer(heads=2, head_dim=6, positions=4, qk_norm=True, causal=False, scale_power=1,
                                    rotation=100.0)),
    "alibi": (Options(heads=2, keys=2, norm="layer", table=alibi(2, 4), mlp=""),
              tp.Transformer(heads=2, head_dim=6, positions=4, norm="layer", mlp=None, score_table=alibi(2, 4))),
    "one table": (Options(heads=2, keys=2, norm="rms", table=TABLE.repeat(2, 0), causal=False, rotated="half"),
                  tp.Transformer(heads=2, head_dim=6, positions=4, causal=False, rotation=100.0,
                                 score_table=ONE_TABLE)),
    "scaled": (Options(heads=2, keys=2, norm=None, scale=0.3, phi=torch.tanh),
               tp.Transformer(heads=2, head_dim=6, positions=4, norm=None, phi="tanh"))}


def beside(mlp: str, ratio: int = 1, shared: int = 1, heads: int = 2) -> dict[str, Any]:
    return dict(heads=heads, head_dim=WIDTH // heads, positions=4, mlp=None, attention=ParallelBlock(
        softmax_attention(WIDTH // heads, sp.Rational(1, 2), queries_per_key=shared), mlp, ratio))


SAME |= {
    "gpt-j": (Options(heads=2, keys=2, norm="layer", ratio=2, gains=True, beside="at once", m=0.7),
              tp.Transformer(**beside("mlp", 2), norm="layer", gains=True)),
    "cohere": (Options(heads=4, keys=2, norm="layer", mlp="glu", phi=F.silu, beside="in turn"),
               tp.Transformer(**beside("glu", 1, 2, 4), norm="layer", phi="silu")),
    "two norms": (Options(heads=2, keys=2, norm="rms", phi=torch.tanh, beside="two norms", keep=0.9),
                  tp.Transformer(**beside("mlp"), phi="tanh", skip=tp.Skip(keep=0.9)))}


BIASED = {
    "mlp": (Options(phi=torch.tanh, m=0.5, biases="ud"), tp.ResNet("tanh", "mlp", biases=True)),
    "wide": (Options(phi=torch.relu, ratio=3, biases="u"), tp.ResNet("relu", "mlp", mlp_ratio=3, biases=["W1"])),
    "wide end": (Options(ratio=2, biases="d"), tp.ResNet("gelu", "mlp", mlp_ratio=2, biases=["W2"])),
    "three": (Options(phi=torch.tanh, mlp="deep", biases="md"),
              tp.ResNet("tanh", "mlp", matrices=3, biases=["W2", "W3"])),
    "activation first": (Options(phi=torch.tanh, mlp="pre", norm="layer", gains=True, biases="dn"),
                         tp.ResNet("tanh", "pre_nonlin", norm="layer", gains=True, biases=True)),
    "glu": (Options(mlp="glu", phi=F.silu, ratio=2, norm="rms", biases="wn"),
            tp.ResNet(block="swiglu", norm="rms", mlp_ratio=2, biases=["W2", "norm"])),
    "post": (Options(phi=torch.tanh, norm="layer", position="post", gains=True, biases="udn"),
             tp.ResNet("tanh", "mlp", norm="layer", norm_position="post", gains=True, biases=True)),
    "output": (Options(norm="rms", position="output", m=0.5, biases="un"),
               tp.ResNet("gelu", "mlp", norm="rms", norm_position="output", biases=["W1", "norm"])),
    "gpt": (Options(heads=2, keys=2, fused=True, norm="layer", ratio=2, gains=True, biases="qkvoudn"),
            tp.Transformer(heads=2, head_dim=6, positions=4, norm="layer", gains=True, mlp_ratio=2, biases=True)),
    "qwen": (Options(heads=2, keys=1, norm="rms", mlp="glu", phi=F.silu, gains=True, m=0.25, biases="qkv",
                     rotated="half"),
             tp.Transformer(heads=2, head_dim=6, positions=4, mlp="swiglu", queries_per_key=2, gains=True,
                            rotation=100.0, biases=["Wq", "Wk", "Wv"])),
    "encoder": (Options(heads=3, keys=3, causal=False, norm="layer", position="post", phi=torch.relu, biases="qkvoudn",
                        gains=True),
                tp.Transformer(heads=3, head_dim=4, positions=4, norm="layer", norm_position="post", causal=False,
                               phi="relu", gains=True, biases=True)),
    "qk norm": (Options(heads=2, keys=1, norm="rms", position="sandwich", qk_norm=True, scale=1 / 6, mlp="",
                        biases="qk"),
                tp.Transformer(heads=2, head_dim=6, positions=4, mlp=None, norm_position="sandwich", qk_norm=True,
                               scale_power=1, queries_per_key=2, biases=["Wq", "Wk"])),
    "rotary pairs": (Options(heads=2, keys=2, norm="rms", rotated="pairs", causal=False, biases="qkvo"),
                     tp.Transformer(heads=2, head_dim=6, positions=4, causal=False, rotation=100.0,
                                    biases=["Wq", "Wk", "Wv", "Wo"])),
    "gpt-j": (Options(heads=2, keys=2, norm="layer", ratio=2, gains=True, beside="at once", m=0.7, biases="udn"),
              tp.Transformer(**beside("mlp", 2), norm="layer", gains=True, biases=["W1", "W2", "norm"]))}


def made(options: Any, depth: int = DEPTH) -> Any:
    return models.Model(depth, WIDTH, 5, 2, options)


def read(options: Any) -> Any:
    batch = torch.randn(2, 4, 5, dtype=torch.float64) if options.heads else torch.randn(2, 5, dtype=torch.float64)
    return tpt.read(made, dict(options=options), batch=batch).to_network()


@pytest.mark.parametrize("name", SAME)
def test_the_network_computes_what_the_model_does(name: str) -> None:
    """With the weights that the network draws, outputs are equal to 1e-10; and the network is the one expected."""
    compare(*SAME[name])


@pytest.mark.parametrize("name", BIASED)
def test_biases_are_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they start at 0, they are drawn here, in the network and in the model alike."""
    _program.cache_clear()
    monkeypatch.setitem(STARTS, "zero", None)
    compare(*BIASED[name])
    _program.cache_clear()


def compare(options: Any, network: Any) -> None:
    found = read(options)
    if isinstance(found.network, tp.Transformer):
        assert found.network == network
    elif network is not None:
        assert (repr(found.network), found.depth, found.width) == (repr(network), DEPTH, WIDTH)
    expected = ("training", "eps of norms", "which starts at up to", "softmax forgets")
    assert all(any(part in one for part in expected) for one in found.left_out)
    rng, shape = np.random.default_rng(1), (1, 2, 4) if options.heads else (1, 2)
    kind = tp.Sequences if options.heads else tp.Task
    task = kind(rng.normal(size=(*shape, 5)), rng.normal(size=(*shape, 2)))
    behind = options.norm and options.position != "pre"
    scale = tp.DepthScaling(np.log(2) / np.log(DEPTH) if options.m == 0.5 else 0, 0) if behind else tp.DepthScaling()
    run = tp.train(found.network, task, tp.SGD(), scale, DEPTH, WIDTH, method="dense", seed=2)
    model = made(options)
    models.take(model, found, run.initial_weights(), 1.0 if behind else scale.multiplier(DEPTH))
    outputs = model(torch.tensor(np.asarray(task.inputs[0]))).detach().numpy()
    assert np.abs(run.outputs[0]).max() > 1e-2
    np.testing.assert_allclose(outputs, run.outputs[0], rtol=0, atol=1e-10)


def test_what_knows_positions_is_read_from_models_as_they_are() -> None:
    """Rotations of all of a head or a part of it, by halves or neighbors; tables of MPT, and of Falcon, which divides
    them by the root of a head's size."""
    transformers = pytest.importorskip("transformers")
    usually = dict(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
    in_part = dict(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=32, bos_token_id=0, eos_token_id=0)
    models_of = {"GPTNeoX": (dict(usually, rotary_pct=0.5), (1.0, 0.01, 0, 0), None),
                 "GPTJ": (in_part, (1.0, 0.01, 0, 0), None),
                 "Mpt": (dict(vocab_size=32, d_model=32, n_layers=2, n_heads=4, max_seq_len=16), (), alibi(4, 8)),
                 "Falcon": (dict(usually, alibi=True, multi_query=False), (), alibi(4, 8) / 8**0.5)}
    for name, (options, angles, table) in models_of.items():
        config = getattr(transformers, f"{name}Config")(**options)
        found = tpt.read(lambda: getattr(transformers, f"{name}ForCausalLM")(config), {}).to_network()
        attention, = found.network._written.attention
        assert attention.angles == pytest.approx(angles)
        assert (attention.table is None) == (table is None)
        assert table is None or np.abs(attention.table.values - table).max() < 1e-6
        assert not any("rotation" in one or "table" in one for one in found.left_out)
        assert tp.classify(0.5, 0.5, found.network).name == "Depth-muP"


class Biased(usual.GPT):  # type: ignore[misc,name-defined]
    """T5's biases: looked up by distance, of one table for all layers or of one for each."""

    def __init__(self, n_layer: int, tables: int) -> None:
        super().__init__(n_layer)
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(15, 2) for _ in range(tables))
        for k, block in enumerate(self.h):
            block.attn.forward = lambda x, own=block.attn, k=k: self.attended(own, x, self.tables[k % tables])

    def attended(self, own: Any, x: Any, table: Any) -> Any:
        where = torch.arange(8)
        q, k, v = (one.view(*x.shape[:2], 2, -1).transpose(1, 2) for one in own.qkv(x).chunk(3, -1))
        scores = q @ k.mT / q.shape[-1]**0.5 + table(where[:, None] - where + 7).permute(2, 0, 1)
        weights = scores.masked_fill(torch.ones(8, 8).tril() == 0, -torch.inf).softmax(-1)
        return own.proj((weights @ v).transpose(1, 2).reshape(x.shape))


def test_trained_tables_are_fixed_in_the_network_and_said() -> None:
    """One for all layers is there as it starts; of several there is none."""
    one, many = (tpt.read(lambda n_layer: Biased(n_layer, tables), dict(n_layer=2)).to_network() for tables in (1, 2))
    table = one.network.score_table.values
    assert table.shape == (2, 8, 8) and many.network.score_table is None
    assert np.abs(table[:, 5, 3] - table[:, 4, 2]).max() < 1e-6 < np.abs(table[:, 5, 3]).min()  # by distance
    assert "tables.0.weight, table, which the network does not train" in one.left_out
    assert "table added to scores, another one in every layer" in many.left_out


def test_nano_gpt_and_llama_are_depth_mup() -> None:
    """As people write them: embeddings and a norm in front of the head are what is left out."""
    gpt = tpt.read(lambda n_layer: usual.GPT(n_layer, tied=True), dict(n_layer=2)).to_network()
    assert gpt.network == tp.Transformer(heads=2, head_dim=16, positions=8, norm="layer", gains=True, mlp_ratio=4,
                                         biases=True)
    assert gpt.matrices["b2"] == "h.*.mlp.2.bias" and gpt.matrices["bq"] == gpt.matrices["bk"]
    assert any(one.startswith("h.*.mlp.0.bias, which starts at up to 0.") for one in gpt.left_out)
    assert {"wpe.weight, rows looked up in front of the stream", "layer norm behind the stream",
            "wte.weight is embedding and readout, which tied=True has"} <= set(gpt.left_out)
    assert gpt.matrices["Wk"] == "h.*.attn.qkv.weight" and not gpt.multipliers
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(vocab_size=32, hidden_size=32, intermediate_size=88, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2)
    llama = tpt.read(lambda: transformers.LlamaForCausalLM(config), {}).to_network()
    assert llama.network == tp.Transformer(heads=4, head_dim=8, positions=8, mlp="swiglu", queries_per_key=2,
                                           gains=True, mlp_ratio=3, rotation=10_000.0)
    assert llama.left_out[:1] == (
        "hidden width, 2.75 times the stream's, which is 3 times it in the network",)
    assert str(llama).splitlines()[0] == "causal transformer of softmax attention and glu, 2 layers of width 32"
    for found in (gpt, llama):
        assert tp.classify(0.5, 0.5, found.network).name == "Depth-muP"
        one_coordinate = replace(found.network, heads=None, head_dim=1, queries_per_key=1, mlp_ratio=1, positions=2,
                                 rotation=None)
        assert "Wq" in str(tp.kets(tp.program(one_coordinate, tp.SGD(), tp.DepthScaling())))


def test_parallel_blocks_as_people_write_them() -> None:
    """Two norms, of which the perceptron's has a gain of its own, in GPT-NeoX; one in Cohere, whose mean is taken
    twice."""
    read_as = tpt.read(changed(parallel), dict(n_layer=3)).to_network()
    own = "h.*.block.ln2.weight, gain of a norm beside that of attention, which is the network's"
    assert read_as.network.attention.mlp_ratio == 4 and own in read_as.left_out
    assert tp.classify(0.5, 0.5, read_as.network).name == "Depth-muP"
    transformers = pytest.importorskip("transformers")
    options = dict(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                   pad_token_id=0, bos_token_id=1, eos_token_id=2)
    for name, mlp, of_own, turned in (("GPTNeoX", "mlp", True, 1), ("Cohere", "glu", False, 4),
                                      ("Phi", "mlp", False, 2)):  # pairs of eight coordinates, a part in NeoX and Phi
        config = getattr(transformers, f"{name}Config")(**options)
        found = tpt.read(lambda: getattr(transformers, f"{name}ForCausalLM")(config), {}).to_network()
        block = found.network.attention
        assert np.count_nonzero(block.attention.angles) == turned
        assert replace(block, attention=replace(block.attention, angles=())) == ParallelBlock(
            softmax_attention(8, sp.Rational(1, 2)), mlp, 2)
        assert found.network.norm == "layer" and found.network.gains
        assert any("gain of a norm beside" in one for one in found.left_out) == of_own


@pytest.mark.parametrize("phi, expected", [(torch.relu, "relu"), (F.gelu, "gelu"), (F.silu, "silu"), (torch.abs, "abs"),
                                           (torch.erf, "erf"), (torch.tanh, "tanh")])
def test_activations_are_told_apart(phi: Any, expected: str) -> None:
    assert read(Options(phi=phi)).network.phi == expected


def test_activations_without_a_name_are_expressions() -> None:
    """Squared relu and both approximations of gelu are functions of their own, and none of them gelu."""
    found = {read(Options(phi=phi)).network.phi for phi in (
        relu_squared, lambda x: F.gelu(x, approximate="tanh"), lambda x: x * torch.sigmoid(1.702 * x))}
    assert len(found) == 3 and not any(isinstance(one, str) for one in found)


def changed(change: Any) -> Any:
    """A GPT of which something is changed."""
    def make(n_layer: int) -> Any:
        model = usual.GPT(n_layer)
        change(model)
        return model
    return make


def last_is_other(name: str, value: Any) -> Any:
    return changed(lambda model: setattr(model.h[-1], name, value))


class Parallel(torch.nn.Module):
    def __init__(self, block: Any) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Any) -> Any:
        return x + self.block.attn(self.block.ln1(x)) + self.block.mlp(self.block.ln2(x))


class Expanded(torch.nn.Module):
    """A matrix of equal rows, and one of which a part is read."""

    def __init__(self, n: int, part: bool) -> None:
        super().__init__()
        self.w, self.b = torch.nn.Parameter(torch.randn(2 * n if part else 1, n)), torch.nn.Linear(n, n)

    def forward(self, x: Any) -> Any:
        n = x.shape[-1]
        return self.b(torch.tanh(torch.nn.functional.linear(x, self.w[:n] if len(self.w) > 1 else self.w.expand(n, n))))


class Other(torch.nn.Module):
    """A perceptron with something that no block has."""

    def __init__(self, kind: str, n: int = 32) -> None:
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(n, n) for _ in range(3))
        self.kind = kind

    def forward(self, x: Any) -> Any:
        return {"detached": lambda: self.c(torch.tanh(F.linear(x, self.a.weight.detach()))),
                "cut": lambda: self.c(F.silu(self.a(x)) * self.b(x).clamp(-7, 7)),
                "gate": lambda: self.c(F.silu(self.a(x)) * self.b(x)**2),
                "phis": lambda: self.c(torch.relu(self.b(torch.tanh(self.a(x))))),
                "front": lambda: self.c(torch.relu(self.a(torch.tanh(x)))),
                "front of glu": lambda: self.c(F.silu(self.a(torch.tanh(x))) * self.b(torch.tanh(x))),
                "two fronts": lambda: self.c(F.silu(self.a(x)) * self.b(torch.tanh(x))),
                "twice": lambda: self.a(torch.tanh(self.a(x)))}[self.kind]()


class Detached(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.detach()


class Straight(torch.nn.Module):
    """tanh, whose derivative is taken for 1."""

    def forward(self, x: Any) -> Any:
        return x + (torch.tanh(x) - x).detach()


class EveryLayer(usual.GPT):  # type: ignore[misc,name-defined]
    """Outputs of all layers, added."""

    def forward(self, tokens: Any) -> Any:
        x, outputs = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])), 0
        for block in self.h:
            x = block(x)
            outputs = outputs + self.lm_head(self.ln_f(x))
        return outputs


class MeanOfLayers(usual.GPT):  # type: ignore[misc,name-defined]
    def forward(self, tokens: Any) -> Any:
        values = [self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))]
        for block in self.h:
            values.append(block(values[-1]))
        return self.lm_head(self.ln_f(torch.stack(values).mean(0)))


class Gated(torch.nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(n, n), torch.nn.Linear(n, n)

    def forward(self, x: Any) -> Any:
        return self.b(torch.tanh(self.a(x)) * x)


def in_every_layer(change: Any) -> Any:
    return changed(lambda model: [change(block) for block in model.h])


def cut_off(block: Any) -> None:
    """What the block returns is cut off, as is done where half precision overflows."""
    usually = block.forward
    block.forward = lambda x: usually(x).clamp(-50, 50)


class Subtracted(Parallel):
    def forward(self, x: Any) -> Any:
        return x + (self.block.attn(self.block.ln1(x)) - self.block.mlp(self.block.ln2(x)))


class Twice(Parallel):
    """Two perceptrons beside each other."""

    def __init__(self, block: Any) -> None:
        super().__init__(block)
        self.other = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 32))

    def forward(self, x: Any) -> Any:
        return x + self.other(self.block.ln1(x)) + self.block.mlp(self.block.ln2(x))


class NormedTogether(Parallel):
    def forward(self, x: Any) -> Any:
        return x + self.block.ln2(self.block.attn(self.block.ln1(x)) + self.block.mlp(self.block.ln1(x)))


def in_parallel(kind: Any) -> Any:
    return changed(lambda model: setattr(model, "h", torch.nn.ModuleList(kind(block) for block in model.h)))


def over_tokens(x: Any) -> Any:
    return x * torch.rsqrt(x.square().mean(1, keepdim=True))


def parallel(model: Any) -> None:
    model.h = torch.nn.ModuleList(Parallel(block) for block in model.h)


REFUSED = {  # what to make, and what the refusal names
    "multipliers of layers": (last_is_other("m", 0.5), r"^branch 4 \(add in h.2\): got attention .*last=0.5"),
    "activations of layers": (changed(lambda model: model.h[1].mlp.__setitem__(1, torch.nn.ReLU())),
                              r"^branch 3 \(add in h.1\): got mlp .*phi=relu.* and mlp .*phi=gelu"),
    "subtracted": (in_parallel(Subtracted), r"^branch 0 .*sub, add in h.0 between a branch"),
    "two perceptrons": (in_parallel(Twice), r"^branch 0 .*2 products at once"),
    "both normed": (in_parallel(NormedTogether), r"^branch 0 .*between a branch"),
    "stream within": (in_every_layer(lambda block: setattr(block, "mlp", Gated(32))),
                      r"^branch 1 \(add in h.0\): got a function of the stream and of products"),
    "equal rows": (in_every_layer(lambda block: setattr(block, "mlp", Expanded(32, False))), "^branch 1 .*mlp.w"),
    "part of a matrix": (in_every_layer(lambda block: setattr(block, "mlp", Expanded(32, True))), "^branch 1 .*mlp.w"),
    "tokens in turn": (in_every_layer(lambda block: setattr(block.ln2, "forward", lambda x: x.flip(1))),
                       r"^branch 1 .*flip in h.0.ln2 .*in front of its first matrix"),
    "norm over tokens": (in_every_layer(lambda block: setattr(block.ln2, "forward", over_tokens)), "^branch 1"),
    "one matrix twice": (changed(lambda model: setattr(model.h[1], "mlp", model.h[0].mlp)),
                         r"^branch 1 .*each used once"),
    **{f"other {kind}": (in_every_layer(lambda block, kind=kind: setattr(block, "mlp", Other(kind))),
                         said) for kind, said in [
        ("gate", "^branch 1 .*got silu.* of two products"), ("phis", "^branch 1 .*different functions"),
        ("front", "^branch 1 .*an activation tanh"), ("front of glu", "^branch 1 .*an activation tanh"),
        ("two fronts", "^branch 1 .*different functions of the stream"), ("twice", "^h.0.mlp.a.weight")]},
    "one matrix behind": (changed(lambda model: setattr(model, "ln_f", torch.nn.Sequential(
        model.ln_f, model.h[0].attn.proj))), r"^branch 0 .*each used once"),
    "softplus": (in_every_layer(lambda block: block.mlp.__setitem__(1, torch.nn.Softplus())),
                 r"^branch 1 \(add in h.0\): got .*softplus.* in h.0.mlp.1 between two matrices"),
    "hardtanh in front": (in_every_layer(lambda block: setattr(block, "ln2", torch.nn.Hardtanh())),
                          r"^branch 1 .*hardtanh in h.0.ln2 in front of its first matrix"),
    "relu cut off": (in_every_layer(lambda block: block.mlp.__setitem__(1, torch.nn.ReLU6())),
                     r"^branch 1 .*hardtanh in h.0.mlp.1 between two matrices"),
    "glu cut off": (in_every_layer(lambda block: setattr(block, "mlp", Other("cut"))), "^branch 1 .*of two products"),
    "stream cut off": (in_every_layer(lambda block: setattr(block, "ln2", torch.nn.Hardtanh(-20, 20))),
                       r"^branch 1 .*hardtanh in h.0.ln2 in front of its first matrix"),
    "sum cut off": (in_every_layer(cut_off), r"^branch 1 \(add in h.0\): got .*clamp in h.0 between a branch"),
    "no gradient of the stream": (in_every_layer(lambda block: setattr(block, "ln2", Detached())),
                                  "^detach in h.0.ln2: got numbers whose gradients stop there"),
    "no gradient of a matrix": (in_every_layer(lambda block: setattr(block, "mlp", Other("detached"))),
                                "^detach in h.0.mlp: got numbers whose gradients stop there"),
    "other gradient": (in_every_layer(lambda block: block.mlp.__setitem__(1, Straight())),
                       "^detach in h.0.mlp.1: got numbers whose gradients stop there"),
    "outputs of layers": (EveryLayer, "^native_layer_norm in ln_f: got something beside branches that reads"),
    "mean of layers": (MeanOfLayers, "^stack in the model: got something beside branches that reads the stream"),
    "one gain for all": (changed(lambda model: [setattr(block, "ln1", model.h[0].ln1) for block in model.h]),
                         r"^branch 0 \(add in h.0\): got h.0.ln1.weight, which is the gain of several norms"),
    "dropped norm": (last_is_other("ln2", torch.nn.Identity()), r"^branch 5 \(add in h.2\): got mlp .*norm=None"),
    "norms of two kinds": (in_every_layer(lambda block: setattr(block, "ln2", torch.nn.RMSNorm(32))),
                           "^make: got attention .*norm=layer.* and mlp .*norm=rms"),
    "experts": (others.Alternating, r"^branch 1 .*layers.1.1.down .*matrices that are parameters by themselves"),
    "scale of a branch": (others.Mixer, "^blocks.0.gamma1: got branch scale"),
    "two streams": (others.EncoderDecoder, "^make: got a model of 2 residual streams"),
    "half precision": (changed(lambda model: model.bfloat16()), "^make: got a model in torch.bfloat16")}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_network_is_refused_by_name(name: str) -> None:
    make, message = REFUSED[name]
    base = dict(depth=3) if isinstance(make, type) and not issubclass(make, usual.GPT) else dict(n_layer=3)
    with pytest.raises(NotCovered, match=message):
        tpt.read(make, base).to_network()


usual_attention = F.scaled_dot_product_attention
SPOILED = {
    "values": lambda q, k, v, **_: usual_attention(q, k, torch.sin(v), is_causal=True),
    "queries": lambda q, k, v, **_: usual_attention(q + q**2, k, v, is_causal=True),
    "zeros for what is masked": lambda q, k, v, **_: (q @ k.mT).tril().softmax(-1) @ v,
    "mask": lambda q, k, v, **_: (q @ k.mT).masked_fill(torch.ones(8, 8).tril(2) == 0, -1e38).softmax(-1) @ v,
    "cut off": lambda q, k, v, **_: (q @ k.mT).clamp(-50, 50).softmax(-1) @ v,
    "cap": lambda q, k, v, **_: (5 * torch.tanh(q @ k.mT / 5)).softmax(-1) @ v,
    "sink": lambda q, k, v, **_: (q @ k.mT).exp() / (1 + (q @ k.mT).exp().sum(-1, keepdim=True)) @ v,
    "over queries": lambda q, k, v, **_: (q @ k.mT).softmax(-2) @ v,
    "later queries": lambda q, k, v, **_: usual_attention(q, k, v, is_causal=True).roll(1, 2),
    "sizes of queries": lambda q, k, v, **_: usual_attention(q.abs(), k.abs(), v, is_causal=True),
    "growing queries": lambda q, k, v, **_: usual_attention(*(x * torch.arange(1, 9)[:, None] for x in (q, k)), v),
    "one for both": lambda q, k, v, **_: usual_attention(q, q, v, is_causal=True),
    "rows for both": lambda q, k, v, **_: usual_attention(q, q * 1, v, is_causal=True),
    "later": lambda q, k, v, **_: (q @ k.mT).softmax(-1) @ v.roll(1, 2)}


@pytest.mark.parametrize("name", SPOILED)
def test_attention_that_is_another_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usual.F, "scaled_dot_product_attention", SPOILED[name])
    with pytest.raises(NotCovered, match=r"^_softmax in|^_scaled_dot_product.* in|^branch 0"):
        tpt.read(usual.GPT, dict(n_layer=2)).to_network()


def test_what_is_frozen_is_said() -> None:
    """Networks train their matrices and gains, and their embedding and readout where they are told to."""
    def freeze(model: Any) -> None:
        for parameter in (*(block.mlp[0].weight for block in model.h), model.h[0].mlp[2].weight, model.wte.weight,
                          model.wpe.weight, model.lm_head.weight, *(block.ln2.weight for block in model.h)):
            parameter.requires_grad_(False)
    usually = set(tpt.read(usual.GPT, dict(n_layer=2)).to_network().left_out)
    frozen = set(tpt.read(changed(freeze), dict(n_layer=2)).to_network().left_out)
    assert frozen - usually == {f"h.*.{name}, which trains in the network" for name in (
        "mlp.0.weight, frozen", "ln2.weight, frozen", "mlp.2.weight, frozen in 1 of 2 layers")}
    assert usually - frozen == {"embedding and readout: their training, which train_embedding_readout=True has"}


def test_means_over_positions_are_left_out_and_said() -> None:
    class Pooled(usual.GPT):  # type: ignore[misc,name-defined]
        def forward(self, tokens: Any) -> Any:
            return super().forward(tokens).mean(1)

    assert "mean behind the readout" in tpt.read(Pooled, dict(n_layer=2)).to_network().left_out


def test_what_the_stream_is_multiplied_with_is_as_it_was_written() -> None:
    """Also in float32, which has no 0.9."""
    found = [tpt.read(lambda depth, skip=skip: usual.ResMLP(depth, skip=skip), dict(depth=2)).to_network().network
             for skip in (0.9, 0.5**0.5)]
    assert found[0].skip == tp.Skip(keep=0.9) and float(found[1].skip.keep) == pytest.approx(0.5**0.5, rel=1e-7)


@pytest.mark.parametrize("masked", [-1e4, -1e9, torch.finfo(torch.float32).min, -torch.inf])
def test_masks_are_added_to_scores(masked: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small a masked score is made, the network is causal, and no table is left out."""
    usually = tpt.read(usual.GPT, dict(n_layer=2)).to_network()
    mask = torch.zeros(8, 8).masked_fill(torch.ones(8, 8).tril() == 0, masked)
    monkeypatch.setattr(usual.F, "scaled_dot_product_attention",
                        lambda q, k, v, **_: (q @ k.mT / q.shape[-1]**0.5 + mask).softmax(-1) @ v)
    assert str(tpt.read(usual.GPT, dict(n_layer=2)).to_network()) == str(usually)


def test_large_models_are_read_without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the meta device attention is written out, and is the same network."""
    usually = tpt.read(usual.GPT, dict(n_layer=2)).to_network()
    monkeypatch.setattr("tpcalc.torch.reading.building.LARGEST", 10.0)
    large = tpt.read(usual.GPT, dict(n_layer=2)).to_network()
    assert (large.network, large.matrices) == (usually.network, usually.matrices)
    starts = [one for one in usually.left_out if "which starts at up to" in one]
    unknown = {one for one in large.left_out if "not known here" in one}
    assert set(usually.left_out) - set(large.left_out) == set(starts)
    assert set(large.left_out) - set(usually.left_out) == unknown > {
        f"{one.partition(',')[0]}, which starts at 0 in the network, and is not known here, without values"
        for one in starts}  # those of norms start at 0


def test_a_reading_without_its_model_says_so() -> None:
    reading = tpt.read(usual.ResMLP, dict(depth=2))
    with pytest.raises(ValueError, match="^reading: got one that does not know its model"):
        replace(reading, _record=None).to_network()
