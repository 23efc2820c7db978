"""The dense decoders of `configs/bench` in PyTorch, built from Viaduct's resolved configuration (section `model`), so that both train the
same architecture. Written for speed in PyTorch: query, key and value are one product, and so are gate and up."""

import math

import torch
from torch import nn
from torch.nn import functional as F

SUPPORTED = {
    "qk_layernorm": [False],
    "post_sublayer_norm": [False],
    "layernorm_zero_centered_gamma": [False],
    "window_size": [None],
    "attn_logit_softcapping": [None],
    "final_logit_softcapping": [None],
    "softmax_scale": [None],
    "rope_scaling": [None],
    "rotary_percent": [1],
    "embedding_multiplier": [1],
    "hidden_dropout": [0],
    "embedding_dropout": [0],
    "attention_dropout": [0],
    "activation_func": ["gelu_tanh", "silu"],
    "position_embedding_type": ["learned_absolute", "rope"],
}


def check_supported(model):
    """Refuses a configuration that these modules would train differently."""
    for field, values in SUPPORTED.items():
        if model[field] not in values:
            raise SystemExit(f"peers: model.{field}={model[field]}: the PyTorch models here have only {values}")


class Norm(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.eps = m["layernorm_epsilon"]
        self.weight = nn.Parameter(torch.ones(m["hidden_size"]))
        self.bias = nn.Parameter(torch.zeros(m["hidden_size"])) if m["normalization"] == "LayerNorm" else None

    def forward(self, x):
        if self.bias is None:
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


def rotate(x, cos, sin):
    """Rotates x [B, N, S, D]; element i of a head's first half pairs with element i of the second half."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    """`kernel` is "sdpa" (scaled_dot_product_attention) or "baddbmm" (scores with an additive causal mask, softmax, product)."""

    def __init__(self, m, kernel):
        super().__init__()
        self.heads, self.groups, self.size = m["num_attention_heads"], m["num_query_groups"], m["kv_channels"]
        self.kernel = kernel
        self.qkv = nn.Linear(m["hidden_size"], (self.heads + 2 * self.groups) * self.size, bias=m["add_qkv_bias"])
        self.projection = nn.Linear(self.heads * self.size, m["hidden_size"], bias=m["add_attention_output_bias"])

    def forward(self, x, rope, mask):
        B, S, _ = x.shape
        widths = [self.heads * self.size, self.groups * self.size, self.groups * self.size]
        q, k, v = (part.view(B, S, -1, self.size).transpose(1, 2) for part in self.qkv(x).split(widths, dim=-1))
        if rope is not None:
            cos, sin = (table.to(q.dtype) for table in rope)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.groups != self.heads:
            k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (k, v))
        if self.kernel == "sdpa":
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            flat = lambda t: t.reshape(B * self.heads, S, self.size)
            scores = torch.baddbmm(mask.to(q.dtype), flat(q), flat(k).transpose(1, 2), alpha=1 / math.sqrt(self.size))
            out = torch.bmm(scores.softmax(dim=-1).to(v.dtype), flat(v)).view(B, self.heads, S, self.size)
        return self.projection(out.transpose(1, 2).reshape(B, S, -1))


class FeedForward(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.gated = m["gated_linear_unit"]
        self.silu = m["activation_func"] == "silu"
        self.up = nn.Linear(m["hidden_size"], m["ffn_hidden_size"] * (2 if self.gated else 1), bias=m["add_mlp_bias"])
        self.down = nn.Linear(m["ffn_hidden_size"], m["hidden_size"], bias=m["add_mlp_bias"])

    def forward(self, x):
        act = F.silu if self.silu else lambda t: F.gelu(t, approximate="tanh")
        if not self.gated:
            return self.down(act(self.up(x)))
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(act(gate) * up)


class Block(nn.Module):
    def __init__(self, m, kernel):
        super().__init__()
        self.input_norm, self.attention = Norm(m), Attention(m, kernel)
        self.mlp_norm, self.mlp = Norm(m), FeedForward(m)

    def forward(self, x, rope, mask):
        x = x + self.attention(self.input_norm(x), rope, mask)
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    def __init__(self, m, kernel):
        super().__init__()
        check_supported(m)
        S, H, V = m["seq_length"], m["hidden_size"], m["vocab_size"]
        self.embedding = nn.Embedding(V, H)
        learned = m["position_embedding_type"] == "learned_absolute"
        self.positions = nn.Embedding(m["max_position_embeddings"], H) if learned else None
        self.blocks = nn.ModuleList(Block(m, kernel) for _ in range(m["num_layers"]))
        self.norm = Norm(m)
        self.head = nn.Linear(H, V, bias=False)
        self.apply(lambda module: self.initialize(module, m["init_method_std"]))
        if m["share_embeddings_and_output_weights"]:
            self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.full((1, S, S), -torch.inf).triu(1), persistent=False)
        angles = torch.outer(torch.arange(S).float(),
                             m["rotary_base"] ** (-torch.arange(0, m["kv_channels"], 2).float() / m["kv_channels"]))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    @staticmethod
    def initialize(module, std):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, 0, std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens, labels):
        """Mean cross entropy of labels [B, S] (already shifted)."""
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        rope = None if self.positions is not None else (self.cos, self.sin)
        for block in self.blocks:
            x = block(x, rope, self.mask)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))
