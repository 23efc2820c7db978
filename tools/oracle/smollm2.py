"""Compares Viaduct with transformers on a trained model, SmolLM2-135M-Instruct (smollm2_folder.py says where it comes from).

    ./viaduct.sh oracle smollm2              everything; a section of docs/parity.md is written
    ./viaduct.sh oracle smollm2 PART…        only these parts

Parts: `gradients` of 4 × 2 × 192 tokens of Shakespeare, FP32 and BF16, against FP64 beside PyTorch's own error (root mean squares over
the four batches), by the rule of `oracle scale`;
`perplexity` by `viaduct eval` of the first 20,000 tokens of data/tinyshakespeare.txt in windows of 256; `greedy`: text by the chat template, the same tokens
as transformers generates; `tokenizer`: 300 strings, the same ids as those of the tokenizers package. Exit status 1 if anything differs.
"""

import argparse
import json
import math
import pathlib
import random
import sys
import tempfile

import torch
import transformers

import pages
from measure import HEADER, Subject, measure
from reference import load
from rule import RECIPES
from smollm2_folder import write_folder
from viaduct import Viaduct

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAKESPEARE = ROOT / "data" / "tinyshakespeare.txt"
WINDOW, TOKENS = 256, 20000
BATCHES = 4  # in BF16 the distance of one batch is mostly chance, so the rule uses the root mean square of these
QUESTIONS = ["What is the capital of France?", "Write a short poem about the sea.", "Count from 1 to 20, and say which numbers are prime."]


def gradients(viaduct, model, work, tokenizer):
    """Rows of measure(), lines for the page, number of problems."""
    ids = torch.tensor(tokenizer(SHAKESPEARE.read_text()[: BATCHES * 4000])["input_ids"][: BATCHES * 2 * 192]).view(BATCHES, 2, 192)
    batches = tuple({"input_ids": rows.clone(), "labels": rows.clone()} for rows in ids)
    (work / "model").symlink_to(model)
    rows, wrong = measure(Subject("SmolLM2-135M", work, batches, "sdpa"), viaduct, (), RECIPES, show=3)
    return [*pages.table(HEADER, rows), ""], wrong


def whole_lines(text, tokenizer):
    """The longest run of whole lines from the beginning with at most TOKENS tokens, and their ids."""
    encoded = tokenizer(text[: 8 * TOKENS], return_offsets_mapping=True)
    end = text.rindex("\n", 0, encoded["offset_mapping"][TOKENS - 1][1]) + 1
    return text[:end], tokenizer(text[:end])["input_ids"]


def transformers_loss(model, ids):
    """transformers' mean loss of all tokens but the first, in windows of 256 tokens, the last one shorter."""
    network, total = load(model, attention="sdpa"), 0.0
    for begin in range(0, len(ids) - 1, WINDOW):
        row = torch.tensor([ids[begin : begin + WINDOW + 1]])
        with torch.no_grad():
            logits = network(row[:, :-1], use_cache=False).logits
        total += torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), row[:, 1:].flatten(), reduction="sum").item()
    return total / (len(ids) - 1)


def viaduct_loss(viaduct, model, work, text, tokens):
    """The same from `viaduct eval`."""
    (work / "text.txt").write_text(text)
    said = json.loads(viaduct("eval", "--model", model, "--data", work / "text.txt", "--sequence-length", WINDOW, "--json"))
    if said["tokens"] != tokens - 1:
        raise RuntimeError(f"viaduct scored {said['tokens']} tokens, expected {tokens - 1}")
    return said["loss"]


def perplexity(viaduct, model, work, tokenizer):
    text, ids = whole_lines(SHAKESPEARE.read_text(), tokenizer)
    ours, theirs = viaduct_loss(viaduct, model, work, text, len(ids)), transformers_loss(model, ids)
    line = (f"Loss of {len(ids) - 1} tokens of Shakespeare in windows of {WINDOW}, by `viaduct eval` in FP32: {ours:.6f}, transformers {theirs:.6f} "
            f"(perplexity {math.exp(ours):.4f} and {math.exp(theirs):.4f}).")
    print(line)
    return [line], int(not abs(ours - theirs) <= 1e-5)


def greedy(viaduct, model, work, tokenizer):
    network, problems, written = load(model, attention="sdpa"), 0, 0
    for question in QUESTIONS:
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False)
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        theirs = network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=48, do_sample=False)[0, ids.shape[1] :].tolist()
        if theirs[-1] == tokenizer.eos_token_id:
            theirs.pop()
        said = json.loads(viaduct("generate", "--model", model, "--prompt", prompt, "--max-new-tokens", 48, "--temperature", 0, "--json"))
        same = said["tokens"] == theirs and said["prompt_tokens"] == ids[0].tolist()
        print(f"{'same' if same else 'DIFFERENT'}: {len(theirs)} tokens after {question!r}: {said['text']!r}")
        problems, written = problems + (not same), written + len(theirs)
        if not same:
            print(f"  transformers: {tokenizer.decode(theirs)!r}")
    return [f"Greedy text by the chat template: {written} tokens after {len(QUESTIONS)} questions, {problems} texts differ."], problems


def strings(count):
    """Lines of Shakespeare, digits, runs of spaces, letters and signs of many scripts, contractions."""
    draw = random.Random(7)
    lines = [line for line in SHAKESPEARE.read_text().splitlines() if line]
    alphabets = ["0123456789 ,.", " \t\n  ", "äöüßéèñçøåœ", "абвгдежзийклмн ", "日本語中文字漢かなカナ", "مرحبا بالعالم ", "नमस्ते दुनिया ", "😀🎉👩‍👩‍👧🇩🇪",
                 "it's we'll I'm they'd ", "{}[]()<>=+-*/_;:#@!?\"'", "ﬁﬂ①②½ \u200b\u00a0"]
    out = []
    for index in range(count):
        parts = [draw.choice(lines) if draw.random() < 0.4 else "".join(draw.choices(draw.choice(alphabets), k=draw.randint(1, 12)))
                 for _ in range(draw.randint(1, 6))]
        out.append(draw.choice(["", " "]).join(parts))
    return out


def tokenized(viaduct, model, work, tokenizer):
    texts = strings(300)
    printed = viaduct("tokenizer", "encode", "--tokenizer", model, "--json", text="".join(json.dumps(text) + "\n" for text in texts))
    ours = [json.loads(line) for line in printed.splitlines()]
    theirs = [tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    different = [text for text, mine, other in zip(texts, ours, theirs, strict=True) if mine != other]
    print(f"{len(texts)} strings tokenized, {len(different)} differ {different[:3] if different else ''}")
    return [f"{len(texts)} strings tokenized as the `tokenizers` package does, {len(different)} differ."], len(different)


PARTS = {"tokenizer": tokenized, "greedy": greedy, "gradients": gradients, "perplexity": perplexity}


def main():
    parser = argparse.ArgumentParser(prog="oracle smollm2", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--viaduct", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "smollm2", help="the Hugging Face folder to make")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    torch.set_num_threads(2)
    transformers.utils.logging.set_verbosity_error()
    write_folder(arguments.folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.folder)
    lines, wrong = [], 0
    for part, check in PARTS.items():
        if not arguments.parts or part in arguments.parts:
            with tempfile.TemporaryDirectory(prefix="viaduct-oracle-") as work:
                more, failed = check(Viaduct(arguments.viaduct), arguments.folder.resolve(), pathlib.Path(work), tokenizer)
            lines, wrong = lines + more, wrong + failed
    if not arguments.parts:
        pages.write_section("oracle smollm2", lines)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
