"""A PyTorch trainer in one setting that waits for commands, so that it can alternate with Viaduct.

    torch_step.py '{"model": {…}, "rows": 4, "dtype": "bf16", "attention": "sdpa", "compile": false, "fused": false}'

Prints one JSON line when ready. Then, for each line `N` on standard input, it runs N training steps (forward, backward, clip, AdamW) on random
tokens and prints their seconds. BF16 is autocast with FP32 weights, gradients and states; "pure" has all of them in BF16. With "lora" (options
of peft's LoraConfig) an adapter on all linear layers trains alone; "frozen": "bf16" has the frozen weights in BF16, and FP32 factors, as peft
makes them. With "folder" instead of "model" the model and its batches are those of a folder (folders.py)."""

import contextlib
import itertools
import json
import os
import sys
import time

import torch


def build_folder(setting):
    """Returns the model of a folder, and the function loss(**batch)."""
    import transformers

    folder = setting["folder"] + "/model"
    kind = getattr(transformers, transformers.AutoConfig.from_pretrained(folder).architectures[0])
    dtype = torch.bfloat16 if setting["dtype"] == "pure" else torch.float32
    model = kind.from_pretrained(folder, attn_implementation=setting["attention"], dtype=dtype).train()
    run = torch.compile(model) if setting["compile"] else model
    return model, lambda **batch: run(**batch, use_cache=False).loss


def folder_batches(setting):
    """The batches of a folder's file, again and again."""
    from safetensors.torch import load_file

    stored = {name.removeprefix("batch."): tensor for name, tensor in load_file(setting["folder"] + "/batches.safetensors").items()}
    count = len(next(iter(stored.values())))
    return itertools.cycle([{name: tensor[i] for name, tensor in stored.items()} for i in range(count)])


def random_batches(setting):
    m = setting["model"]
    while True:
        tokens = torch.randint(m["vocab_size"], (setting["rows"], m["seq_length"] + 1))
        yield {"tokens": tokens[:, :-1], "labels": tokens[:, 1:].contiguous()}


def groups(parameters):
    """Biases and other vectors have no weight decay, as in Viaduct."""
    return [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]


def build(setting):
    """Returns the model, and the function loss(tokens=…, labels=…) of shifted labels."""
    m = setting["model"]
    if setting.get("library") != "transformers":
        from models import Decoder

        model = Decoder(m, setting["attention"])
        return model, torch.compile(model) if setting["compile"] else model
    from torch.nn import functional as F

    from hf_models import build as build_hf

    model = build_hf(m, setting["attention"])
    if "lora" in setting:
        from peft import LoraConfig, get_peft_model

        if setting["frozen"] == "bf16":
            model = model.to(torch.bfloat16)
        model = get_peft_model(model, LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM", **setting["lora"]))
        model.train()
    run = torch.compile(model) if setting["compile"] else model

    def loss(tokens, labels):
        logits = run(input_ids=tokens).logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), labels.view(-1))

    return model, loss


def main():
    setting = json.loads(sys.argv[1])
    torch.manual_seed(1)
    torch.set_num_threads(setting["threads"])
    model, forward = build_folder(setting) if "folder" in setting else build(setting)
    batches = folder_batches(setting) if "folder" in setting else random_batches(setting)
    training = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(groups(training), lr=3e-4, betas=(0.9, 0.95), eps=1e-8, **({"fused": True} if setting["fused"] else {}))
    bf16 = setting["dtype"] == "bf16"

    def step():
        with torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext():
            loss = forward(**next(batches))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(training, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    losses = [step() for _ in range(setting["warmup"])]
    say({"parameters": sum(p.numel() for p in model.parameters()), "loss": losses[0], "losses": losses, "torch": torch.__version__,
         "cpu_capability": torch.backends.cpu.get_cpu_capability(), "jemalloc": "jemalloc" in os.environ.get("LD_PRELOAD", "")})
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
        say({"seconds": seconds})


def say(value):
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
