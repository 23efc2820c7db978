"""What the small adapters that tests compare with hold: PEFT's folder, gradients of one batch, ten steps of AdamW, and merged weights.

Of an adapter DIR/CASE/adapter is the folder as PEFT saves it, DIR/CASE/golden.safetensors a batch with logits, loss and gradients,
DIR/CASE/train.safetensors ten batches with loss and gradient norm of each step and the values after them (final.NAME), and
DIR/CASE/merged.safetensors the weights that merging changes, under the model's names."""

import peft
import safetensors.torch
import torch


def run(model, batch):
    out = model(**batch, use_cache=False)
    out.loss.backward()
    return out


def steps(model, batch_of):
    """Ten steps on the batches that `batch_of()` makes."""
    decay = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    batches, losses, norms = [], [], []
    for _ in range(10):
        batches.append(batch_of())
        optimizer.zero_grad(set_to_none=True)
        losses.append(run(model, batches[-1]).loss.detach())
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
    trace = {f"batch.{name}": torch.stack([one[name] for one in batches]) for name in batches[0]}
    return {**trace, "loss": torch.stack(losses), "grad_norm": torch.stack(norms)}


@torch.no_grad()
def randomize_adapter(model, generator, size):
    for name, parameter in model.named_parameters():
        if "lora_magnitude" in name:
            parameter.mul_(1 + 0.1 * torch.randn(parameter.shape, generator=generator))
        elif "lora_" in name:
            parameter.copy_(size * torch.randn(parameter.shape, generator=generator))


def store_adapter(name, base, fields, folder, load, batch_of, size=0.2):
    """`load(model folder)`: the model; `batch_of(config, generator)`: a batch; `size`: of the adapter's elements."""
    generator = torch.Generator().manual_seed(20261130)
    plain = load(folder / base / "model")
    config, before = plain.config, {key: value.clone() for key, value in plain.state_dict().items()}
    model = peft.get_peft_model(plain.eval(), peft.LoraConfig(**fields))
    model.peft_config["default"].base_model_name_or_path = base
    randomize_adapter(model, generator, size)
    model.save_pretrained(folder / name / "adapter")
    (folder / name / "adapter" / "README.md").unlink(missing_ok=True)
    trained = {key.replace(".default", ""): one for key, one in model.named_parameters() if one.requires_grad}
    batch = batch_of(config, generator)
    out = run(model, batch)
    golden = {**batch, "logits": out.logits.detach(), "loss": out.loss.detach()}
    read = [key for key, one in trained.items() if one.grad is not None]
    golden.update({f"grad.{key}": trained[key].grad.clone() for key in read})
    safetensors.torch.save_file({key: value.contiguous() for key, value in golden.items()}, folder / name / "golden.safetensors")
    merged = peft.PeftModel.from_pretrained(load(folder / base / "model"), folder / name / "adapter").merge_and_unload().state_dict()
    changed = {f"merged.{key}": value.contiguous() for key, value in merged.items() if not torch.equal(value, before[key])}
    safetensors.torch.save_file(changed, folder / name / "merged.safetensors")
    trace = steps(model, lambda: batch_of(config, generator))
    trace.update({f"final.{key}": trained[key].detach().contiguous() for key in read})
    safetensors.torch.save_file(trace, folder / name / "train.safetensors")
    print(f"{name}: loss {out.loss.item():.6f}, {len(read)} gradients of {len(trained)} tensors, {len(changed)} merged weights")
