"""Times Hugging Face's `tokenizers` and Viaduct on the same text, alternating, and prints the ratio for each pattern by which published
tokenizers split texts: `./viaduct.sh peers tokenization` (docs/benchmarks.md).

Ours is all of `viaduct data tokenize`: reading JSONL, encoding, writing the dataset. Theirs is `encode_batch` alone, of texts that are in memory."""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERNS = {
    "gpt2": None,  # byte-level BPE's own
    "llama3": LETTERS + r"|\p{N}{1,3}" + TAIL,
    "qwen2": LETTERS + r"|\p{N}" + TAIL,
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SUFFIX}|\p{{N}}{{1,3}}"
             r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def with_pattern(tokenizer, pattern):
    """The tokenizer of a file with another pattern."""
    if pattern is None:
        return tokenizer
    changed = dict(tokenizer)
    changed["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    return changed


def documents(megabytes):
    """Texts of about two kilobytes, as many as give so many megabytes."""
    text = (ROOT / "data/tinyshakespeare.txt").read_text()
    parts = [text[i:i + 2000] for i in range(0, len(text), 2000)]
    return [parts[i % len(parts)] for i in range(int(megabytes * 1e6) // 2000)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="threads of either")
    parser.add_argument("--megabytes", type=float, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds of 4 MB")
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"))
    options = parser.parse_args()
    if options.quick:
        options.megabytes, options.rounds = 4, 2
    os.environ["RAYON_NUM_THREADS"] = str(options.workers)
    import tokenizers  # reads RAYON_NUM_THREADS

    print(f"tokenizers {tokenizers.__version__}, {options.workers} workers, {options.megabytes:g} MB, medians of {options.rounds} alternating rounds")
    print(f"{'pattern':10}{'tokenizers':>14}{'Viaduct':>14}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)

        def viaduct(*arguments):
            subprocess.run([options.viaduct, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        texts = documents(options.megabytes)
        with open(folder / "texts.jsonl", "w") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        viaduct("tokenizer", "train", "--input", ROOT / "data/tinyshakespeare.txt", "--vocab-size", 8192, "--output", folder / "trained")
        trained = json.loads((folder / "trained/tokenizer.json").read_text())
        for name, pattern in PATTERNS.items():
            (folder / name).mkdir()
            (folder / name / "tokenizer.json").write_text(json.dumps(with_pattern(trained, pattern)))
            theirs = tokenizers.Tokenizer.from_file(str(folder / name / "tokenizer.json"))
            seconds = {"theirs": [], "ours": []}
            for _ in range(options.rounds):
                begin = time.perf_counter()
                ids = sum(len(e.ids) for e in theirs.encode_batch(texts, add_special_tokens=False))
                seconds["theirs"].append(time.perf_counter() - begin)
                begin = time.perf_counter()
                viaduct("data", "tokenize", "--input", folder / "texts.jsonl", "--tokenizer", folder / name, "--output", folder / "out",
                        "--no-append-eod", "--workers", options.workers, "--overwrite")
                seconds["ours"].append(time.perf_counter() - begin)
            inspected = json.loads(subprocess.run([options.viaduct, "data", "inspect", str(folder / "out"), "--json"], check=True, capture_output=True).stdout)
            if inspected["total_tokens"] != ids:
                raise SystemExit(f"peers: {name}: {inspected['total_tokens']} tokens, and {ids} of tokenizers")
            theirs_median, ours_median = (statistics.median(seconds[who]) for who in ("theirs", "ours"))
            print(f"{name:10}{options.megabytes / theirs_median:9.1f} MB/s{options.megabytes / ours_median:9.1f} MB/s{theirs_median / ours_median:8.2f}", flush=True)


if __name__ == "__main__":
    main()
