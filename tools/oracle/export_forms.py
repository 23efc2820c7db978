"""The forms of an export that `oracle exports` opens: folders, rounded and merged ones, GGUF files of all types, PEFT's adapters.

Each is read by transformers (with peft for adapters), whose logits are compared with those of `viaduct probe` on the same file, or of what it
was made from where nothing is rounded between. `None` for a distance: transformers does not read the architecture, and Viaduct's own reading
is compared with the model.
"""

import subprocess

import gguf
import peft
import torch
import transformers
from safetensors.torch import save_file

from viaduct import Refused

LIMIT = 2e-5
LENGTH, VOCABULARY = 24, 100
QUANTIZED = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k"]
ADAPTER = ["peft.scheme=lora", "peft.dim=4", "peft.alpha=16", "optimizer.lr=0.02", "scheduler.lr_warmup_iters=0", "train.train_iters=4",
           "train.global_batch_size=2", "dataset.mock=true", f"model.seq_length={LENGTH}", "validation.eval_iters=0", "mixed_precision=fp32",
           "logger.log_throughput=false"]


def distance(found, expected):
    return (torch.linalg.vector_norm(found.double() - expected) / torch.linalg.vector_norm(expected, dtype=torch.float64)).item()


def logits_of(ids, *where, attention="eager", **how):
    """transformers' logits of a folder or a GGUF file, and what does not fit its model."""
    model, said = transformers.AutoModelForCausalLM.from_pretrained(
        *where, **how, dtype=torch.float32, attn_implementation=attention, output_loading_info=True)
    problems = [f"{kind}: {sorted(said[kind])[:3]}" for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") if said.get(kind)]
    with torch.no_grad():
        return model.eval()(ids, use_cache=False).logits, problems


class Export:
    """A run of one step in `work`, its batch, its logits and its plain export."""

    def __init__(self, viaduct, work, family, settings, seed):
        self.viaduct, self.work, self.family = viaduct, work, family
        self.attention = "sdpa" if family == "falcon" else "eager"  # Falcon's in steps adds ALiBi twice (reference.py)
        viaduct("train", f"model.family={family}", *settings, f"checkpoint.save={work / 'run'}")
        self.ids = torch.randint(VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(seed))
        save_file({"input_ids": self.ids, "labels": self.ids.clone()}, work / "batch.safetensors")
        self.problems = []
        self.logits = self.probe(work / "run")
        self.convert(work / "run", work / "exported")

    def probe(self, model, *arguments):
        return self.viaduct.probe(model, self.work / "batch.safetensors", self.work / "out.safetensors", *arguments,
                                  "mixed_precision=fp32")["logits"]

    def convert(self, source, target, *arguments):
        """Converts; what the command warns of is a problem."""
        done = subprocess.run([self.viaduct.binary, "convert", "--from", source, "--to", target, *map(str, arguments)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(f"viaduct convert: {done.stderr.strip()}")
        expected = ("no tokenizer", "are not a multiple of")
        self.problems += [line for line in done.stderr.splitlines() if "warning" in line and not any(text in line for text in expected)]
        return target

    def judged(self, form, found, expected, unfit=()):
        """The distance; whatever is wrong becomes a problem of this form."""
        error = distance(found, expected)
        self.problems += [f"{form}: {problem}" for problem in unfit]
        if not error <= LIMIT:
            self.problems.append(f"{form}: logits {error:.1e}")
        return error

    def folder(self):
        found, unfit = logits_of(self.ids, self.work / "exported", attention=self.attention)
        return self.judged("folder", found, self.logits, unfit)

    def rounded(self, dtype):
        path = self.convert(self.work / "run", self.work / dtype, "--dtype", dtype)
        found, unfit = logits_of(self.ids, path, attention=self.attention)
        return self.judged(dtype, found, self.probe(path), unfit)

    def gguf(self, dtype=None):
        """A file; without `dtype` in the format of the run, so that it has the numbers of the run."""
        form = dtype or "GGUF"
        path = self.convert(self.work / "run", self.work / f"{form}.gguf", *(["--dtype", dtype] if dtype else []))
        reader = gguf.GGUFReader(path)
        if not reader.tensors or "general.architecture" not in reader.fields:
            self.problems.append(f"{form}: gguf finds no tensors or no architecture")
        again = self.probe(path)
        if not dtype:
            self.judged(f"{form}, read back", again, self.logits)
        # transformers reads neither scaled positions, nor Gemma 2's caps, nor the sizes of some heads out of such a file: those are in the
        # folder. A file of mistral is one of llama.
        how = {} if self.family == "mistral" else {"config": transformers.AutoConfig.from_pretrained(self.work / "exported")}
        try:
            found, unfit = logits_of(self.ids, self.work, gguf_file=path.name, **how)
        except ValueError as unsupported:
            if "not supported" not in str(unsupported):
                raise
            return None
        return self.judged(form, found, again, unfit)

    def quantized(self):
        """The largest distance of all types."""
        found = [self.gguf(dtype) for dtype in QUANTIZED]
        return None if None in found else max(found)

    def adapter(self):
        """(PEFT's folder on the exported model, the two merged by Viaduct)."""
        run = self.work / "tuned"
        self.viaduct("train", f"checkpoint.pretrained_checkpoint={self.work / 'exported'}", *ADAPTER, f"checkpoint.save={run}")
        folder = self.convert(run, self.work / "adapter")
        expected = self.probe(self.work / "exported", "--adapter", folder)
        if distance(self.logits, expected) < 1e-3:
            self.problems.append("adapter: it changes nothing, so that nothing is compared")
        base = transformers.AutoModelForCausalLM.from_pretrained(self.work / "exported", dtype=torch.float32,
                                                                 attn_implementation=self.attention)
        with torch.no_grad():
            found = peft.PeftModel.from_pretrained(base, folder).eval()(self.ids, use_cache=False).logits
        tuned = self.judged("adapter", found, expected)
        merged = self.convert(self.work / "exported", self.work / "merged", "--adapter", folder)
        return tuned, self.judged("merged", logits_of(self.ids, merged, attention=self.attention)[0], expected)
