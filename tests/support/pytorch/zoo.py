"""Models that people train, in tiny sizes, by name: make(depth, n). ``python tests/support/pytorch/zoo.py`` prints the
roles that are read of them, a line a pattern; tests/pytorch/zoo_roles.txt keeps what was looked through."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Callable

import timm
import torch
import torchvision
import transformers as tf
import x_transformers as xt
from torch import nn
from torch.nn import functional as F

from support.pytorch import reading_models, torch_models

WORDS = 96
Make = Callable[[int, int], nn.Module]
TOKENS = torch.randint(WORDS, (2, 8), generator=torch.Generator().manual_seed(0)).clamp(min=3)
IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
BOTH = dict(input_ids=TOKENS, decoder_input_ids=TOKENS.flip(1))
BASE, TARGET = dict(depth=2, n=64), dict(depth=4, n=128)


def quiet(model: Any) -> nn.Module:
    """A model of transformers that keeps no cache."""
    if hasattr(model, "config") and hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    return model


def like_llama(name: str, model: str = "", **more: Any) -> Make:
    """A causal language model of transformers whose configuration has LLaMA's names."""
    def make(depth: int, n: int) -> nn.Module:
        given = dict(vocab_size=WORDS, hidden_size=n, intermediate_size=2 * n, num_hidden_layers=depth,
                     num_attention_heads=n // 16, num_key_value_heads=max(1, n // 32), head_dim=16,
                     max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
        given.update({key: value(n) if callable(value) else value for key, value in more.items()})
        config = getattr(tf, name + "TextConfig", None) or getattr(tf, name + "Config")
        return quiet(getattr(tf, (model or name) + "ForCausalLM")(config(**given)))
    return make


def hugging(name: str, config: str, **given: Callable[[int, int], Any]) -> Make:
    """A model of transformers; given: arguments of its configuration by depth and width."""
    return lambda depth, n: quiet(getattr(tf, name)(getattr(tf, config)(
        **{key: value(depth, n) for key, value in given.items()})))


def words(d: int, n: int) -> int:
    return WORDS


def deep(d: int, n: int) -> int:
    return d


def wide(d: int, n: int) -> int:
    return n


def heads(d: int, n: int) -> int:
    return n // 16


def four(d: int, n: int) -> int:
    return 4 * n


def long(d: int, n: int) -> int:
    return 64


USUAL = dict(hidden_size=wide, num_hidden_layers=deep, num_attention_heads=heads, intermediate_size=four)
PICTURES = dict(image_size=lambda d, n: 32, patch_size=lambda d, n: 8)


def decoder(**more: Any) -> Make:
    return lambda depth, n: xt.TransformerWrapper(num_tokens=WORDS, max_seq_len=64, attn_layers=xt.Decoder(
        dim=n, depth=depth, heads=n // 16, attn_dim_head=16, **more))


def vit(kind: Any = timm.models.vision_transformer.VisionTransformer, **more: Any) -> Make:
    return lambda depth, n: kind(img_size=32, patch_size=8, embed_dim=n, depth=depth, num_heads=n // 16, num_classes=10,
                                 **more)


def mixer(**more: Any) -> Make:
    return lambda depth, n: timm.models.mlp_mixer.MlpMixer(img_size=32, patch_size=8, num_blocks=depth, embed_dim=n,
                                                           num_classes=10, **more)


class Encoder(nn.Module):
    """torch's own encoder, with words and positions."""

    def __init__(self, depth: int, n: int, norm_first: bool) -> None:
        super().__init__()
        self.emb, self.pos = nn.Embedding(WORDS, n), nn.Parameter(0.02 * torch.randn(1, 8, n))
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(
            n, n // 16, 4 * n, 0.0, batch_first=True, norm_first=norm_first), depth, nn.LayerNorm(n),
            enable_nested_tensor=False)
        self.out = nn.Linear(n, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.enc(self.emb(tokens) + self.pos[:, :tokens.shape[1]]))


class Nano(nn.Module):
    """nanochat's factors of the stream, as vectors outside of layers."""

    def __init__(self, depth: int, n: int) -> None:
        super().__init__()
        self.emb, self.head = nn.Embedding(WORDS, n), nn.Linear(n, WORDS, bias=False)
        self.a, self.b = (nn.ModuleList(nn.Linear(*shape, bias=False) for _ in range(depth))
                          for shape in ((n, 4 * n), (4 * n, n)))
        self.resid_lambdas, self.x0_lambdas = nn.Parameter(torch.ones(depth)), nn.Parameter(torch.zeros(depth))
        for last in (*self.b, self.head):
            nn.init.zeros_(last.weight)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = x0 = F.rms_norm(self.emb(tokens), (self.emb.embedding_dim,))
        for i, (a, b) in enumerate(zip(self.a, self.b)):
            x = self.resid_lambdas[i] * x + self.x0_lambdas[i] * x0
            x = x + b(F.relu(a(F.rms_norm(x, x.shape[-1:]))).square())
        return 30 * torch.tanh(self.head(F.rms_norm(x, x.shape[-1:])) / 30)


MODELS: dict[str, tuple[Make, Any]] = {
    "gpt2": (hugging("GPT2LMHeadModel", "GPT2Config", vocab_size=words, n_positions=long, n_embd=wide, n_layer=deep,
                     n_head=heads), TOKENS),
    **{name: (like_llama(name), TOKENS) for name in (
        "Llama", "Qwen2", "Qwen3", "Mistral", "Gemma", "Olmo", "Olmo2", "Phi3")},
    "Llama tied": (like_llama("Llama", tie_word_embeddings=True), TOKENS),
    "Gemma2": (like_llama("Gemma2", query_pre_attn_scalar=16), TOKENS),
    "Gemma3": (like_llama("Gemma3", query_pre_attn_scalar=16), TOKENS),
    "Mixtral": (like_llama("Mixtral", num_local_experts=4), TOKENS),
    "Qwen3Moe": (like_llama("Qwen3Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=lambda n: n),
                 TOKENS),
    "GPTNeoX": (hugging("GPTNeoXForCausalLM", "GPTNeoXConfig", vocab_size=words, max_position_embeddings=long, **USUAL),
                TOKENS),
    "OPT": (hugging("OPTForCausalLM", "OPTConfig", vocab_size=words, hidden_size=wide, num_hidden_layers=deep,
                    num_attention_heads=heads, ffn_dim=four, max_position_embeddings=long, word_embed_proj_dim=wide),
            TOKENS),
    "Bert": (hugging("BertForMaskedLM", "BertConfig", vocab_size=words, max_position_embeddings=long, **USUAL), TOKENS),
    "ViT of transformers": (hugging("ViTForImageClassification", "ViTConfig", **PICTURES, **USUAL), IMAGES),
    "T5": (hugging("T5ForConditionalGeneration", "T5Config", vocab_size=words, d_model=wide, d_kv=lambda d, n: 16,
                   d_ff=four, num_layers=deep, num_decoder_layers=deep, num_heads=heads,
                   decoder_start_token_id=lambda d, n: 0), BOTH),
    "T5's encoder": (hugging("T5EncoderModel", "T5Config", vocab_size=words, d_model=wide, d_kv=lambda d, n: 16,
                             d_ff=four, num_layers=deep, num_heads=heads), TOKENS),
    "Mamba": (hugging("MambaForCausalLM", "MambaConfig", vocab_size=words, hidden_size=wide, num_hidden_layers=deep,
                      state_size=lambda d, n: 8, use_mambapy=lambda d, n: False), TOKENS),
    "Mamba2": (hugging("Mamba2ForCausalLM", "Mamba2Config", vocab_size=words, hidden_size=wide, num_hidden_layers=deep,
                       state_size=lambda d, n: 8, head_dim=lambda d, n: 16, num_heads=lambda d, n: n // 8,
                       n_groups=lambda d, n: 1, chunk_size=lambda d, n: 8), TOKENS),
    "RWKV": (hugging("RwkvForCausalLM", "RwkvConfig", vocab_size=words, hidden_size=wide, num_hidden_layers=deep,
                     attention_hidden_size=wide, intermediate_size=four, context_length=long), TOKENS),
    "timm ViT": (vit(), IMAGES),
    "timm ViT with LayerScale": (vit(init_values=1e-4), IMAGES),
    "timm DeiT 3": (vit(timm.models.deit.VisionTransformerDistilled, init_values=1e-4), IMAGES),
    "timm Mixer": (mixer(), IMAGES),
    "timm ResMLP": (mixer(mlp_ratio=4, block_layer=partial(timm.models.mlp_mixer.ResBlock, init_values=1e-4),
                          norm_layer=timm.models.mlp_mixer.Affine), IMAGES),
    "timm ConvNeXt": (lambda depth, n: timm.models.convnext.ConvNeXt(
        in_chans=3, num_classes=10, depths=(1, 1, depth, 1), dims=(n // 4, n // 2, n, 2 * n)), IMAGES),
    "torchvision ResNet": (lambda depth, n: torchvision.models.ResNet(
        torchvision.models.resnet.BasicBlock, [depth] * 4, num_classes=10), IMAGES),
    "torchvision Swin": (lambda depth, n: torchvision.models.SwinTransformer(
        patch_size=[2, 2], embed_dim=n // 2, depths=[2, depth], num_heads=[2, 4], window_size=[4, 4], num_classes=10,
        stochastic_depth_prob=0.0), IMAGES),
    "torchvision ViT": (lambda depth, n: torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=depth, num_heads=n // 16, hidden_dim=n, mlp_dim=4 * n, num_classes=10),
        IMAGES),
    **{f"x-transformers {name}": (decoder(**more), TOKENS) for name, more in {
        "plain": {}, "gate_residual": dict(gate_residual=True), "hyper": dict(num_residual_streams=2),
        "value_residual": dict(add_value_residual=True), "sandwich": dict(sandwich_norm=True),
        "scale_residual": dict(scale_residual=True), "post-norm": dict(pre_norm=False),
        "layerscale": dict(use_layerscale=True), "t5 bias": dict(rel_pos_bias=True),
        "rms glu rotary": dict(use_rmsnorm=True, ff_glu=True, ff_swish=True, rotary_pos_emb=True, attn_qk_norm=True),
    }.items()},
    "torch's encoder": (partial(Encoder, norm_first=True), TOKENS),
    "torch's encoder, post-norm": (partial(Encoder, norm_first=False), TOKENS),
    "nanochat": (Nano, TOKENS),
    "modded-nanogpt": (lambda depth, n: reading_models.ZeroNet(depth, n), TOKENS % 17),
    "nanoGPT": (lambda depth, n: torch_models.GPT(depth, n, tied=True), TOKENS % 17),
    "residual MLP": (lambda depth, n: torch_models.ResMLP(depth, n), torch.randn(
        4, 5, generator=torch.Generator().manual_seed(0))),
    # models that nobody had looked at when readings were written
    "Granite": (like_llama("Granite", embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0), TOKENS),
    "Cohere": (like_llama("Cohere"), TOKENS), "StableLm": (like_llama("StableLm"), TOKENS),
    "Starcoder2": (like_llama("Starcoder2"), TOKENS), "Nemotron": (like_llama("Nemotron"), TOKENS),
    "Olmoe": (like_llama("Olmoe", num_experts=4, num_experts_per_tok=2), TOKENS),
    "Bloom": (hugging("BloomForCausalLM", "BloomConfig", vocab_size=words, hidden_size=wide, n_layer=deep,
                      n_head=heads), TOKENS),
    "GPTJ": (hugging("GPTJForCausalLM", "GPTJConfig", vocab_size=words, n_positions=long, n_embd=wide, n_layer=deep,
                     n_head=heads, rotary_dim=lambda d, n: 8), TOKENS),
    "Mpt": (hugging("MptForCausalLM", "MptConfig", vocab_size=words, d_model=wide, n_layers=deep, n_heads=heads,
                    max_seq_len=long), TOKENS),
    "Bart": (hugging("BartForConditionalGeneration", "BartConfig", vocab_size=words, d_model=wide, encoder_layers=deep,
                     decoder_layers=deep, encoder_attention_heads=heads, decoder_attention_heads=heads,
                     encoder_ffn_dim=four, decoder_ffn_dim=four, max_position_embeddings=long), BOTH),
    "Dinov2": (hugging("Dinov2Model", "Dinov2Config", **PICTURES, **{
        key: value for key, value in USUAL.items() if key != "intermediate_size"}), IMAGES),
    "timm Eva": (vit(timm.models.eva.Eva), IMAGES),
    "timm BEiT": (vit(timm.models.beit.Beit), IMAGES),
    "timm CaiT": (vit(timm.models.cait.Cait), IMAGES),
    "GPTBigCode": (hugging("GPTBigCodeForCausalLM", "GPTBigCodeConfig", vocab_size=words, n_positions=long, n_embd=wide,
                           n_layer=deep, n_head=heads), TOKENS),
}


def lines(name: str) -> list[str]:
    """What is read of a model, or why it is refused: a line a pattern of parameters."""
    import tpcalc as tp
    import tpcalc.torch as tpt
    make, batch = MODELS[name]
    try:
        reading = tpt.read(lambda depth, n: make(depth, n), BASE, TARGET, batch=batch)
    except tp.NotCovered as refusal:
        return [f"{name}\trefused\t{str(refusal).splitlines()[0]}"]
    roles = {f"{name}\t{row['pattern']}\t{row['role']}": None for row in reading.rows}
    try:
        tpt.plan(lambda depth, n: make(depth, n), BASE, TARGET, batch=batch, reading=reading)
    except tp.NotCovered as refusal:
        return [*roles, f"{name}\trefused in depth\t{refusal}"]
    return list(roles)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for one in sys.argv[1:] or MODELS:
        print("\n".join(lines(one)))
