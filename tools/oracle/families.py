"""Compares Viaduct with Hugging Face's transformers on random models of every family and feature (cases.py).

    ./viaduct.sh oracle families [CASE…]        compare; without names all cases, and a section of docs/parity.md is written
    ./viaduct.sh oracle families --store DIR    write the small cases that tests/parity reads

A case: transformers makes the model of a config.json, every weight is drawn anew (norms and biases too), and the folder is saved. Then
logits, loss and every gradient of one batch are compared with transformers' in FP64 (reference.py), with PyTorch's own error for
comparison:

- FP32: the relative L2 distance of each tensor is at most 2e-5; then ten steps of AdamW on other batches, whose losses and gradient norms
  differ from those of FP64 by at most 2e-4 of them;
- bf16_mixed: logits 3e-2, gradients 6e-2, loss 5e-3; fp16_mixed: logits 5e-3, gradients 3e-2, loss 1e-3; with experts, where rounding sends a
  token near the border of two of them to another one, here or there, logits 0.2, gradients 0.9, loss 2e-2, so that only what is missing or quite
  wrong is found. Where a model is so sensitive that PyTorch's own distance in that format is near a limit (ReLU, whose slope jumps), the limit
  is twice that distance: which elements jump is chance, and is another on either side;
- after conversion to a checkpoint and back, transformers computes the same bits;
- the config.json written by hand and the one that transformers saves give the same bits.
"""

import argparse
import json
import math
import pathlib
import sys
import tempfile

import torch
import transformers
from safetensors.torch import save_file

import pages
from cases import CASES, STORED
from reference import TRAINING, errors, load, model_class, reference, steps
from rule import worst_and_median
from viaduct import Viaduct

ROWS, STEPS = 2, 10
STEP_LIMIT = 2e-4  # of losses and gradient norms, relative
LIMITS = {"fp32": (2e-5, 2e-5, 1.2e-4), "bf16_mixed": (3e-2, 6e-2, 5e-3), "fp16_mixed": (5e-3, 3e-2, 1e-3)}  # logits, gradients, loss (absolute)
SENSITIVE = 2  # times PyTorch's own distance, in 16 bits
ROUTED = (0.2, 0.9, 2e-2)  # in 16 bits, of models with experts: a gradient of zeros is 1 away
PYTORCH = {"fp32": "fp32", "bf16_mixed": "bf16", "fp16_mixed": "fp16"}
HEADER = ["case", "row length", "stored as"] + [
    f"{precision} {what}" for precision in ("FP32", "BF16", "FP16") for what in ("logits", "gradients", "PyTorch's")] + ["FP32 ten steps"]


def randomize(model, generator):
    """Draws every weight, of a size at which no term of the gradient vanishes."""
    scaled_embedding = "gemma" in model.config.model_type
    stored_minus_one = scaled_embedding and model.config.model_type != "gemma4_text" or model.config.model_type == "nemotron"
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("e_score_correction_bias"):  # a parameter in ERNIE 4.5; large enough to change choices
            value = 0.1 * noise
        elif parameter.dim() == 1:
            centre = 1.0 if "norm" in name or ".ln_" in name else 0.0
            if name.endswith("bias") or stored_minus_one:
                centre = 0.0
            value = centre + 0.2 * noise
            if model.config.model_type == "gemma4_text" and name.endswith("q_norm.weight"):  # its scores are not scaled
                value *= parameter.shape[0] ** -0.25
        elif "embed" in name or "wte" in name or "wpe" in name:  # where tied it is also the head: logits of about 1
            value = noise * parameter.shape[1] ** -0.5 * (1.0 if scaled_embedding else 1.5)
        else:
            value = noise * (0.8 * min(parameter.shape[-2:]) ** -0.5)
            if name.endswith("Attention.q.weight"):  # of T5, whose scores are not scaled
                value *= model.config.d_kv ** -0.5
            if model.config.model_type == "gpt_neo" and name.endswith("q_proj.weight"):  # nor are its
                value *= (model.config.hidden_size / model.config.num_heads) ** -0.5
        parameter.data.copy_(value)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):  # DeepSeek-V3's selection bias, large enough to change choices
            buffer.copy_(0.1 * torch.randn(buffer.shape, generator=generator))
        elif name.endswith("layer_scalar"):  # Gemma 4's
            buffer.copy_(0.8 + 0.1 * torch.randn(buffer.shape, generator=generator))


def make(folder, config, length, seed, dtype=torch.float32):
    """Writes the model of a case, in several shards unless it is F32, and returns its batch."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(seed)
    model = model_class(folder).from_config(transformers.AutoConfig.from_pretrained(folder))
    randomize(model.float(), generator)
    model.to(dtype).save_pretrained(folder, max_shard_size="5GB" if dtype == torch.float32 else "100KB")
    return make_batch(config, length, generator)


def make_batch(config, length, generator):
    """Random rows, with labels."""
    images = [value for name, value in config.items() if name.endswith(("token_id", "token_index"))] if "text_config" in config else []
    vocabulary = min([config.get("text_config", config)["vocab_size"], *images])  # the ids for images are the last ones
    ids = torch.randint(vocabulary, (ROWS, length), generator=generator)
    ids[:, 3] = 0  # the padding token, if the model has one: it is looked up but gets no gradient
    if not config.get("is_encoder_decoder"):
        return {"input_ids": ids, "labels": ids.clone()}
    mask = torch.ones_like(ids)
    mask[1, length - length // 4:] = 0
    ids[mask == 0] = config["pad_token_id"]
    labels = torch.randint(vocabulary, (ROWS, length // 2 + 1), generator=generator)
    labels[0, -3:] = -100
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def train(viaduct, work, config, length, seed):
    """The largest relative difference of a loss or gradient norm of ten steps in FP32 from transformers' in FP64."""
    generator = torch.Generator().manual_seed(1000 + seed)
    batches = [make_batch(config, length, generator) for _ in range(STEPS)]
    save_file({f"batch.{name}": torch.stack([batch[name] for batch in batches]) for name in batches[0]}, work / "train.safetensors")
    model = load(work / "model", "fp64")
    still = ["model.moe_router_bias_update_rate=0"] if any("e_score_correction_bias" in name for name in model.state_dict()) else []
    found = viaduct.probe(work / "model", work / "train.safetensors", work / "trained.safetensors", *TRAINING, *still, flags=["--train"])
    losses, norms = steps(model, batches, "fp64")
    truth = {"loss": losses, "grad_norm": norms}
    apart = [abs(a - b) / b for name, values in truth.items() for a, b in zip(found[name].tolist(), values, strict=True)]
    return max(apart) if all(map(math.isfinite, apart)) else math.inf  # max() may pass over NaN


def convert_there_and_back(viaduct, work, batch, expected):
    """The tensors that transformers computes differently for the exported folder."""
    viaduct("convert", "--from", work / "model", "--to", work / "checkpoint", "--to-format", "viaduct")
    viaduct("convert", "--from", work / "checkpoint", "--to", work / "exported", "--to-format", "hf")
    found = reference(work / "exported", batch)
    return [name for name in expected if not torch.equal(found[name], expected[name])]


def judge(found, truth, limits):
    """(distance of the logits, largest distance of a gradient, problems)."""
    own = errors(found, truth)
    problems = [f"unexpected {name}" for name in found if name.startswith("grad.") and name not in truth]
    loss = (found["loss"] - truth["loss"]).abs().item()
    if not loss <= limits[2]:
        problems.append(f"loss {loss:.1e}")
    for name, error in own.items():
        if name != "loss" and not error <= (limits[0] if name == "logits" else limits[1]):
            problems.append(f"{name} {error:.1e}")
    return own["logits"], worst_and_median(own)[0], problems


def check(viaduct, name, config, length, dtype):
    """Makes a row of the table, and the problems."""
    with tempfile.TemporaryDirectory(prefix="viaduct-oracle-") as work:
        work = pathlib.Path(work)
        batch = make(work / "model", config, length, len(name), dtype)
        truth, single = reference(work / "model", batch, "fp64"), reference(work / "model", batch)
        save_file(batch, work / "batch.safetensors")
        row, problems = [name, str(length), str(dtype).removeprefix("torch.")], []
        for recipe, how in PYTORCH.items():
            apart = errors(single if how == "fp32" else reference(work / "model", batch, how), truth)
            theirs, loss = worst_and_median(apart)[0], apart["loss"] * truth["loss"].abs().item()
            found = viaduct.probe(work / "model", work / "batch.safetensors", work / "out.safetensors", f"mixed_precision={recipe}")
            least = ROUTED if any(".experts." in tensor for tensor in truth) else LIMITS[recipe]
            narrow = [max(limit, SENSITIVE * error) for limit, error in zip(least, (apart["logits"], theirs, loss))]
            logits, gradient, wrong = judge(found, truth, LIMITS[recipe] if how == "fp32" else narrow)
            row += [f"{logits:.1e}", f"{gradient:.1e}", f"{theirs:.1e}"]
            problems += [f"{recipe}: {problem}" for problem in wrong]
        problems += [f"converted: {tensor} differs" for tensor in convert_there_and_back(viaduct, work, batch, single)]
        trained = train(viaduct, work, config, length, len(name))
        row.append(f"{trained:.1e}")
        if not trained <= STEP_LIMIT:
            problems.append(f"ten steps: a loss or gradient norm differs by {trained:.1e}")
        saved = viaduct.probe(work / "model", work / "batch.safetensors", work / "out.safetensors")
        (work / "model" / "config.json").write_text(json.dumps(config))
        given = viaduct.probe(work / "model", work / "batch.safetensors", work / "out.safetensors")
        for probed in (saved, given):
            probed.pop("loss_with_aux", None)  # by a coefficient that only a saved file says
        problems += [f"{tensor} depends on the spelling of config.json" for tensor in saved if not torch.equal(saved[tensor], given[tensor])]
        return row, problems


def section(rows):
    return [
        f"Random models of every family and feature ([`tools/oracle/cases.py`](../tools/oracle/cases.py)), against {pages.versions()}",
        "in FP64: relative L2 distance of the logits and the largest of any gradient, beside PyTorch's largest of a gradient in the same format.",
        "Limits: FP32 2e-5 for both; BF16 3e-2 and 6e-2, FP16 5e-3 and 3e-2, with experts 0.2 and 0.9, since rounding sends tokens to other experts; in",
        "16 bits or twice PyTorch's own distance if that is more (ReLU, whose slope jumps here or there). Weights stored in 16 bits come in several files. Last column: ten steps of AdamW in FP32, the largest relative difference",
        "of a loss or gradient norm from those of FP64 (limit 2e-4).",
        "",
        *pages.table(HEADER, rows),
    ]


def store(folder, names):
    for name, (config, length) in STORED.items():
        if names and name not in names:
            continue
        batch = make(folder / name / "model", config, length, seed=len(name))
        expected = reference(folder / name / "model", batch)
        (folder / name / "model" / "generation_config.json").unlink(missing_ok=True)
        for path in (folder / name / "model").iterdir():
            path.chmod(0o644)
        save_file({**batch, **{key: value.contiguous() for key, value in expected.items()}}, folder / name / "golden.safetensors")
        print(f"{name}: {sum(path.stat().st_size for path in (folder / name).rglob('*') if path.is_file())} bytes")


def main():
    parser = argparse.ArgumentParser(prog="oracle families", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="CASE", help="cases whose name contains one of these")
    parser.add_argument("--viaduct", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--store", type=pathlib.Path, metavar="DIR", help="write the small cases of tests/parity into this folder")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    if arguments.store:
        store(arguments.store, arguments.names)
        return 0
    rows, failed = [], 0
    for index, (name, (config, length)) in enumerate(CASES.items()):
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        try:
            row, problems = check(Viaduct(arguments.viaduct), name, config, length, (torch.float32, torch.bfloat16, torch.float16)[index % 3])
        except Exception as error:  # run the other cases nevertheless
            row, problems = [name], [f"{type(error).__name__}: {error}"]
        rows.append(row)
        failed += bool(problems)
        print(f"{'WRONG' if problems else 'ok':6}", *(f"{cell:>8}" for cell in row), flush=True)
        for problem in problems[:8]:
            print(f"       {problem}")
    print(f"{len(rows)} cases, {failed} wrong (transformers {transformers.__version__}, torch {torch.__version__})")
    if not arguments.names and not failed:
        pages.write_section("oracle families", section(rows))
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
