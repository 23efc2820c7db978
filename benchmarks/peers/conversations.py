"""Times Hugging Face's `transformers` and Viaduct where short conversations become tokens, alternating, and prints the ratio:
`./viaduct.sh peers conversations` (docs/benchmarks.md).

Ours is all of `viaduct data chat`: reading JSONL, rendering, finding the answers, encoding, writing the dataset and its mask. Theirs is the fast way
through transformers, of conversations that are in memory, in as many processes: `apply_chat_template` of many conversations at a time, and its fast
tokenizer of many texts at a time; no mask, nothing written. Both make the same number of tokens. CPU seconds hardly change when other programs run beside it."""

import argparse
import json
import multiprocessing
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
AT_ONCE = 1000  # conversations: more are no faster


def conversations(count):
    """Questions and answers of a line each, some with a second turn."""
    lines = [line for line in (ROOT / "data/tinyshakespeare.txt").read_text().splitlines() if line]
    for number in range(count):
        some = [lines[(number * 7 + step * 13) % len(lines)] for step in range(4 if number % 3 == 0 else 2)]
        yield [{"role": "assistant" if step % 2 else "user", "content": text} for step, text in enumerate(some)]


def write_model(viaduct, folder):
    viaduct("tokenizer", "train", "--input", ROOT / "data/tinyshakespeare.txt", "--vocab-size", 8192, "--output", folder)
    configuration = json.loads((folder / "tokenizer_config.json").read_text())
    configuration |= {"eos_token": "<|im_end|>", "extra_special_tokens": ["<|im_start|>"], "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(configuration))


def encode(part):
    """Theirs, in one of the processes: tokens of a part, and the process's CPU seconds."""
    begin = time.process_time()
    tokens = 0
    for at in range(0, len(part), AT_ONCE):
        texts = encode.tokenizer.apply_chat_template(part[at : at + AT_ONCE], tokenize=False)
        tokens += sum(map(len, encode.tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]))
    return tokens, time.process_time() - begin


def start(folder):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import transformers

    encode.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="threads of ours, processes of theirs (default 2)")
    parser.add_argument("--conversations", type=int, default=1_000_000, metavar="N", help="of ours (default 1000000)")
    parser.add_argument("--theirs", type=int, default=100_000, metavar="N", help="of theirs; seconds are scaled to --conversations (default 100000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round of 50,000 and 10,000")
    parser.add_argument("--viaduct", default=str(ROOT / "build/release/viaduct"))
    options = parser.parse_args()
    if options.quick:
        options.conversations, options.theirs, options.rounds = 50_000, 10_000, 1

    def viaduct(*arguments):
        return subprocess.run([options.viaduct, *map(str, arguments)], check=True, capture_output=True, text=True).stdout

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_model(viaduct, folder / "model")
        with open(folder / "chats.jsonl", "w") as file:
            for messages in conversations(options.conversations):
                file.write(json.dumps({"messages": messages}) + "\n")
        part = -(-options.theirs // options.workers)
        given = list(conversations(options.theirs))
        parts = [given[at : at + part] for at in range(0, len(given), part)]
        rows = {"transformers": [], "viaduct": []}
        with multiprocessing.get_context("spawn").Pool(options.workers, start, [str(folder / "model")]) as pool:
            pool.map(encode, [given[:10]] * options.workers, chunksize=1)  # its templates and imports
            for _ in range(options.rounds):
                begin = time.perf_counter()
                encoded = pool.map(encode, parts, chunksize=1)
                scale = options.conversations / options.theirs
                rows["transformers"].append(((time.perf_counter() - begin) * scale, sum(seconds for _, seconds in encoded) * scale))
                before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
                said = viaduct("data", "chat", "--input", folder / "chats.jsonl", "--tokenizer", folder / "model", "--output", folder / "out",
                               "--workers", options.workers, "--overwrite")
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                rows["viaduct"].append((time.perf_counter() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
        ours = json.loads(viaduct("data", "inspect", folder / "out", "--json"))["sequence_lengths"][: options.theirs]
        theirs = sum(tokens for tokens, _ in encoded)
        if sum(ours) != theirs:
            raise SystemExit(f"peers: {sum(ours)} tokens of {options.theirs} conversations, and {theirs} of transformers")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{options.conversations} conversations ({re.search(r'[0-9]+ tokens', said).group()}), {options.workers} workers, medians of {options.rounds} "
          f"alternating rounds; most memory of a process of either: {peak:.0f} MiB")
    median = {who: [statistics.median(values) for values in zip(*seconds)] for who, seconds in rows.items()}
    print(f"{'':14}{'seconds':>10}{'CPU s':>10}")
    for who, (wall, cpu) in median.items():
        print(f"{who:14}{wall:10.1f}{cpu:10.1f}")
    print(f"{'ratio':14}{median['transformers'][0] / median['viaduct'][0]:10.1f}{median['transformers'][1] / median['viaduct'][1]:10.1f}")


if __name__ == "__main__":
    main()
