"""The results of Hugging Face's transformers for a folder and a batch: logits, loss and every gradient, under the names of `viaduct probe`.

Five ways of computing it:

- `fp64`: the reference. Every operation is in FP64, also those that transformers computes in FP32 (norms, softmax). One exception: the
  tables of rotary positions (frequency, its product with the position, cosine and sine) stay those of the FP32 run. They are part of the
  model as published and trained: at position 100,000 the FP32 product alone is off by up to 4e-3 radians. With exact tables every
  FP32 implementation would show that difference, which would hide all others.
- `fp32`; `autocast`: FP32 weights under torch.autocast to BF16; `bf16`, `fp16`: weights and every activation in 16 bits.
"""

import contextlib
import json
import math
import pathlib

import torch
import transformers
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM

from narrow_products import narrow_products
from rule import is_gradient

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "autocast": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class StayInDouble(TorchFunctionMode):
    """Makes conversions of FP64 tensors to FP32 do nothing."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.full and "dtype" not in kwargs and abs(args[1]) > torch.finfo(torch.float32).max:
            kwargs["dtype"] = torch.float64  # the mask of MPT, made in the default type
        if args and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.float64:
            if function is torch.Tensor.float:
                return args[0]
            args = tuple(torch.float64 if argument is torch.float32 else argument for argument in args)
            if kwargs.get("dtype") is torch.float32:
                kwargs["dtype"] = torch.float64
        return function(*args, **kwargs)


def default_attention(config):
    """transformers' default, except where its fused attention lacks a feature: the soft cap of Gemma 2, the sinks of GPT-OSS and the bias of T5."""
    capped = getattr(config, "attn_logit_softcapping", None) is not None
    return "eager" if capped or config.model_type in ("gpt_oss", "t5") else "sdpa"


def model_class(folder):
    """Of a model that takes images the whole one; only text goes in. With an encoder: the one that says the labels."""
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    if config.get("is_encoder_decoder"):
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModelForImageTextToText if "text_config" in config else AutoModelForCausalLM


def text_name(name):
    """The name of a parameter in the text model of a model that takes images; None for those of images."""
    inner = name.removeprefix("model.")
    if inner.startswith(("visual.", "vision_tower.", "multi_modal_projector.")):
        return None
    return "model." + inner.removeprefix("language_model.") if inner.startswith("language_model.") else name


def load(folder, how="fp32", attention="eager"):
    """Loads the model, dropout off. Rotary frequencies are FP32 in every type. Falcon's attention in steps adds ALiBi twice (transformers 5.24:
    to the scores, and in the mask), its fused attention once."""
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    if config.get("model_type") == "falcon" and config.get("alibi"):
        attention = "sdpa"
    # Grouped products of experts, the default of version 5, have no FP64.
    more = {} if transformers.__version__.startswith("4.") else {"experts_implementation": "eager"}
    model = model_class(folder).from_pretrained(folder, dtype=DTYPES[how], attn_implementation=attention, **more)
    if how == "fp64":  # also what version 5 keeps in FP32: weights of routers
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.is_floating_point() and not name.endswith("inv_freq"):
                tensor.data = tensor.data.double()
    for module in model.modules():
        if "RotaryEmbedding" not in type(module).__name__:
            continue
        for name, buffer in module.named_buffers():  # one of each kind of layers in some families
            if name.endswith("inv_freq") and buffer.dtype != torch.float32:
                raise RuntimeError(f"rotary frequencies of {folder} were made in {buffer.dtype}, expected float32")
    return model.eval()


def arithmetic(how):
    """The context manager in which a model of load(…, how) computes."""
    if how == "fp64":
        return StayInDouble()
    return torch.autocast("cpu", torch.bfloat16) if how == "autocast" else contextlib.nullcontext()


def backward(model, batch, how="fp32", micro_batches=1):
    """Adds the gradients of the mean loss over all scored tokens; the logits of each part of the rows, and the loss."""
    labels = batch.get("labels", batch["input_ids"])
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids") if name in batch}
    # Position t is scored against label t + 1, with an encoder against label t, where the decoder's rows are the labels one place later;
    # -100 is skipped; the mean is over the scored tokens of the batch.
    later = 1
    if model.config.is_encoder_decoder:
        later, inputs["decoder_input_ids"] = 0, model.prepare_decoder_input_ids_from_labels(labels)
    scored = (labels[:, later:] != -100).sum()
    logits, total = [], 0
    for part in range(micro_batches):
        rows = slice(part * len(labels) // micro_batches, (part + 1) * len(labels) // micro_batches)
        with narrow_products():
            with arithmetic(how):
                out = model(**{name: tensor[rows] for name, tensor in inputs.items()}, use_cache=False).logits
            values = out if how == "fp64" else out.float()  # the loss is FP32, as in transformers
            loss = torch.nn.functional.cross_entropy(
                values[:, : values.shape[1] - later].flatten(0, 1), labels[rows, later:].flatten(), ignore_index=-100, reduction="sum") / scored
            loss.backward()
        logits.append(out.detach())
        total = total + loss.detach()
        del out, values, loss
    return logits, total


def compute(model, batch, how="fp32", micro_batches=1):
    """Computes logits, loss and gradients of the mean loss over all scored tokens, with the rows in `micro_batches` parts, as in a training loop."""
    model.zero_grad(set_to_none=True)
    logits, total = backward(model, batch, how, micro_batches)
    tensors = {"logits": torch.cat(logits) if len(logits) > 1 else logits[0], "loss": total}
    for name, parameter in model.named_parameters():
        if name.endswith("e_score_correction_bias"):  # a parameter in ERNIE 4.5, which no gradient reaches
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        if text_name(name) is not None:
            tensors.update((f"grad.{one}", part) for one, part in by_expert(model.config.model_type, text_name(name), gradient))
        parameter.grad = None
    return tensors


# The block of the experts and the names of a single one's gate, up and down, in the files of families that differ from most.
BLOCKS = {"mixtral": ("block_sparse_moe", "w1.weight", "w3.weight", "w2.weight"),
          "granitemoe": ("block_sparse_moe", "gate_proj.weight", "up_proj.weight", "down_proj.weight")}
BLOCKS["minimax_m2"] = BLOCKS["phimoe"] = BLOCKS["mixtral"]
BLOCKS["granitemoeshared"] = BLOCKS["granitemoe"]
COMMON_BLOCK = ("mlp", "gate_proj.weight", "up_proj.weight", "down_proj.weight")
# What transformers 4 calls the experts of Granite.
TOGETHER = {"block_sparse_moe.input_linear.weight": "block_sparse_moe.experts.gate_up_proj",
            "block_sparse_moe.output_linear.weight": "block_sparse_moe.experts.down_proj"}
ROUTERS = {"granitemoe": ("block_sparse_moe.router.weight", "block_sparse_moe.router.layer.weight"),
           "mixtral": ("mlp.gate.weight", "block_sparse_moe.gate.weight"),
           "minimax_m2": ("mlp.gate.weight", "block_sparse_moe.gate.weight"),
           "phimoe": ("mlp.router.weight", "block_sparse_moe.gate.weight")}
ROUTERS["granitemoeshared"] = ROUTERS["granitemoe"]


def by_expert(model_type, name, tensor):
    """Splits tensors that hold all experts in transformers into those of single experts under Viaduct's names; a router and GPT-NeoX's
    head get theirs, which are those of files."""
    if model_type == "gpt_neox" and name == "lm_head.weight":
        return [("embed_out.weight", tensor)]
    rest = name.partition(".layers.")[2].partition(".")[2]
    start = name.removesuffix(rest)
    if rest == ROUTERS.get(model_type, ("",))[0] and rest:
        return [(start + ROUTERS[model_type][1], tensor)]
    before, experts, last = TOGETHER.get(rest, rest).partition(".experts.")
    if not experts or "." in last:
        return [(name, tensor)]
    if model_type in ("gpt_oss", "llama4_text"):
        return [(f"{start}{before}.experts.{expert}.{last}", tensor[expert]) for expert in range(len(tensor))]
    block, gate, up, down = BLOCKS.get(model_type, COMMON_BLOCK)
    found = []
    for expert, own in enumerate(tensor):
        parts = zip((gate, up), own.chunk(2)) if last == "gate_up_proj" else [(down, own)]
        found += [(f"{start}{block}.experts.{expert}.{part}", values) for part, values in parts]
    return found


def reference(folder, batch, how="fp32", attention="eager", micro_batches=1):
    """Runs compute() on a folder without keeping the model."""
    return compute(load(folder, how, attention), batch, how, micro_batches)


# AdamW of ten_steps, and the same as settings of Viaduct. Experts are chosen and weighted as in the folder: no loss of the router, no bias that
# moves.
RATE, BETAS, EPSILON, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
TRAINING = [f"optimizer.lr={RATE}", f"optimizer.adam_beta1={BETAS[0]}", f"optimizer.adam_beta2={BETAS[1]}", f"optimizer.adam_eps={EPSILON}",
            f"optimizer.weight_decay={DECAY}", f"optimizer.clip_grad={CLIP}"]


def steps(model, batches, how="fp32"):
    """Loss and gradient norm of each step of PyTorch's AdamW, which does not decay vectors, as Megatron, nor those of all experts in one tensor
    (GPT-OSS's biases), in the type of the model's weights."""
    trained = {name: parameter for name, parameter in model.named_parameters()
               if text_name(name) is not None and not name.endswith("e_score_correction_bias")}
    named = list(trained.values())
    matrices = {name for name, parameter in trained.items() if parameter.dim() > 1 and not name.endswith("bias")}
    groups = [{"params": [p for name, p in trained.items() if name in matrices], "weight_decay": DECAY},
              {"params": [p for name, p in trained.items() if name not in matrices], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON)
    losses, norms = [], []
    for batch in batches:
        optimizer.zero_grad()
        losses.append(backward(model, batch, how)[1].item())
        norms.append(torch.nn.utils.clip_grad_norm_(named, CLIP).item())
        optimizer.step()
    return losses, norms


def gradient_floors(truth):
    """The smallest norm that a gradient is measured by, by name: 1e-6 of its norm if all elements of all gradients had the same size.

    Some gradients are zero in theory (without rotary positions biases of keys do not affect softmax), and their rounding error has no
    meaning: that of a key's bias is measured by the gradient of its weight.
    """
    gradients = [tensor for name, tensor in truth.items() if is_gradient(name)]
    squares = sum(tensor.double().square().sum().item() for tensor in gradients)
    elements = sum(tensor.numel() for tensor in gradients)
    floors = {name: 1e-6 * math.sqrt(squares * tensor.numel() / elements) for name, tensor in truth.items() if is_gradient(name)}
    for name in floors:
        if name.endswith("k_proj.bias"):
            weight = torch.linalg.vector_norm(truth[name.removesuffix("bias") + "weight"], dtype=torch.float64).item()
            if torch.linalg.vector_norm(truth[name], dtype=torch.float64).item() <= 1e-5 * weight:
                floors[name] = max(floors[name], weight)
    return floors


def errors(found, truth):
    """Relative L2 distances from the reference, by name (for the loss the relative difference). A missing tensor has an infinite distance."""
    floors, result = gradient_floors(truth), {}
    for name, expected in truth.items():
        if name not in found or found[name].shape != expected.shape:
            result[name] = math.inf
            continue
        norm = max(torch.linalg.vector_norm(expected, dtype=torch.float64).item(), floors.get(name, 0.0))
        difference = torch.linalg.vector_norm(found[name].double() - expected).item()
        result[name] = difference / norm if norm > 0 else (0.0 if difference == 0 else math.inf)
    return result
