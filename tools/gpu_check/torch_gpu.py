"""PyTorch on the GPU: `ceilings`, or `step gpt2|llama`. Prints one line of JSON."""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {
    "gpt2": {"layers": 12, "hidden": 768, "ffn": 3072, "heads": 12, "groups": 12, "vocabulary": 50257, "sequence": 1024, "rows": 16, "gated": False},
    "llama": {"layers": 4, "hidden": 4096, "ffn": 14336, "heads": 32, "groups": 8, "vocabulary": 128256, "sequence": 8192, "rows": 1, "gated": True},
}


def seconds_of(work, turns):
    """The median time of several synchronized calls."""
    work()
    times = []
    for _ in range(turns):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def ceilings():
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    copied = 2 * source.numel() / seconds_of(lambda: target.copy_(source), 20)
    n = 8192
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return {"copy": copied, "bf16": 2 * n**3 / seconds_of(lambda: a @ b.T, 20), "torch": torch.__version__}


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape, h = shape, shape["hidden"]
        self.width = h // shape["heads"]
        norm = nn.RMSNorm if shape["gated"] else nn.LayerNorm
        self.before, self.behind = norm(h), norm(h)
        self.qkv = nn.Linear(h, (shape["heads"] + 2 * shape["groups"]) * self.width, bias=not shape["gated"])
        self.proj = nn.Linear(h, h, bias=not shape["gated"])
        self.up = nn.Linear(h, shape["ffn"] * (2 if shape["gated"] else 1), bias=not shape["gated"])
        self.down = nn.Linear(shape["ffn"], h, bias=not shape["gated"])

    def rotate(self, x, angles):
        if not self.shape["gated"]:
            return x
        a, b = x.chunk(2, -1)
        cos, sin = angles
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x, angles):
        rows, length, _ = x.shape
        s = self.shape
        q, k, v = self.qkv(self.before(x)).split([n * self.width for n in (s["heads"], s["groups"], s["groups"])], -1)
        q, k, v = (t.view(rows, length, -1, self.width).transpose(1, 2) for t in (q, k, v))
        attended = F.scaled_dot_product_attention(self.rotate(q, angles), self.rotate(k, angles), v, is_causal=True, enable_gqa=s["heads"] != s["groups"])
        x = x + self.proj(attended.transpose(1, 2).reshape(rows, length, -1))
        raised = self.up(self.behind(x))
        if s["gated"]:
            gate, value = raised.chunk(2, -1)
            return x + self.down(F.silu(gate) * value)
        return x + self.down(F.gelu(raised, approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape["vocabulary"], shape["hidden"])
        self.positions = None if shape["gated"] else nn.Embedding(shape["sequence"], shape["hidden"])
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape["layers"]))
        self.norm = (nn.RMSNorm if shape["gated"] else nn.LayerNorm)(shape["hidden"])
        self.head = nn.Linear(shape["hidden"], shape["vocabulary"], bias=False)
        if not shape["gated"]:
            self.head.weight = self.tokens.weight

    def forward(self, ids, labels):
        length, width = ids.shape[1], self.shape["hidden"] // self.shape["heads"]
        place = torch.arange(length, device=ids.device)
        angle = place[:, None] / 500000 ** (torch.arange(width // 2, device=ids.device) / (width // 2))
        angles = (angle.cos().bfloat16(), angle.sin().bfloat16())
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(place)
        for block in self.blocks:
            x = block(x, angles)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), labels.flatten())


def step(name):
    shape = SHAPES[name]
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Decoder(shape)
    run = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def once():
        ids = torch.randint(shape["vocabulary"], (shape["rows"], shape["sequence"] + 1), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(ids[:, :-1], ids[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    once()
    seconds = seconds_of(once, 6)
    return {"tokens_per_second": shape["rows"] * shape["sequence"] / seconds, "torch": torch.__version__}


if __name__ == "__main__":
    print(json.dumps(ceilings() if sys.argv[1] == "ceilings" else step(sys.argv[2])))
