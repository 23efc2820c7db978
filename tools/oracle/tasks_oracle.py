"""Compares `viaduct eval --tasks` with lm_eval on a trained model, in FP32 and on the same file.

    ./viaduct.sh oracle tasks [OVERRIDE…]                     SmolLM2-135M-Instruct (smollm2_folder.py says where it comes from)
    ./viaduct.sh oracle tasks --lines 5                       fewer: under a minute on two idle cores after the packages are there
    ./viaduct.sh oracle tasks --model DIR --tasks FILE.jsonl  any Hugging Face folder, any file of tasks

Without --tasks: the tasks of tests/data/tasks, and --lines questions and continuations about lines of data/tinyshakespeare.txt. Log-likelihoods are
those of lm_eval's HFLM; with `--reference transformers` the harness's arithmetic is written out here, with transformers alone. The figures of a task are
computed from them by the harness's definitions. OVERRIDEs (dist.ranks=2 model.tensor_model_parallel_size=2) go to viaduct.

Prints the largest differences. Exit status 1 if a log-likelihood differs by more than 1e-4 and 3e-6 of its value, a greedy match differs, or a figure differs by what such a
difference does not explain.
"""

import argparse
import json
import math
import pathlib
import random
import statistics
import sys
import tempfile
import time

import torch
import transformers

from smollm2_folder import write_folder
from viaduct import Viaduct

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "data" / "tasks"
SHAKESPEARE = ROOT / "data" / "tinyshakespeare.txt"
LIMIT, RELATIVE = 1e-4, 3e-6  # of a log-likelihood: sums of many tokens have more digits to lose
ROWS = 8  # texts that lm_eval computes together, longest first; padding behind a text changes none of its tokens


def shakespeare_tasks(count):
    """Which line follows two lines of a play, of four; and the line as a continuation."""
    draw = random.Random(11)
    lines = [line for line in SHAKESPEARE.read_text().splitlines() if len(line) > 20]
    tasks = []
    for _ in range(count):
        at = draw.randrange(len(lines) - 3)
        context, right = "\n".join(lines[at : at + 2]) + "\n", lines[at + 2]
        choices = [right, *draw.sample(lines, 3)]
        draw.shuffle(choices)
        tasks.append({"task": "next_line", "context": context, "choices": choices, "answer": choices.index(right)})
        tasks.append({"task": "continue_line", "context": context, "continuation": right})
    return tasks


def read_tasks(file):
    tasks = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    return [{"task": file.stem, **task} for task in tasks]


def few_shot(file, count):
    """What stands before every context."""
    if not count:
        return ""
    parts = []
    for line in read_tasks(file)[:count]:
        right = " " + line["choices"][line["answer"]] if "choices" in line else line["continuation"]
        parts.append(line["context"] + right + "\n\n")
    return "".join(parts)


def requests_of(tasks, examples):
    """(context, text) of every choice and continuation, as the harness's tasks make them."""
    pairs = []
    for line in tasks:
        context = examples + line["context"]
        pairs += [(context, " " + choice) for choice in line["choices"]] if "choices" in line else [(context, line["continuation"])]
    return pairs


def timed(what, work, *arguments):
    """The result of the work, whose time is printed."""
    begin = time.monotonic()
    result = work(*arguments)
    print(f"{what}: {time.monotonic() - begin:.0f} s", flush=True)
    return result


def by_lm_eval(folder, pairs):
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=str(folder), dtype="float32", device="cpu", batch_size=ROWS)
    instances = [Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=index) for index, pair in enumerate(pairs)]
    return [(float(value), bool(greedy)) for value, greedy in model.loglikelihood(instances, disable_tqdm=True)]


def scored_tokens(tokenizer, context, text, begin):
    """Ids of the context, and of what is scored: both are encoded together, and cut where the context alone ends."""
    if not context:
        return [begin], tokenizer(text, add_special_tokens=False)["input_ids"]
    spaces = len(context) - len(context.rstrip())
    if spaces:
        context, text = context[:-spaces], context[-spaces:] + text
    # A text that begins with the begin token gets no second one.
    adds = tokenizer.bos_token is None or not context.startswith(tokenizer.bos_token)
    ids, whole = (tokenizer(part, add_special_tokens=adds)["input_ids"] for part in (context, context + text))
    return ids, whole[len(ids) :]


def by_transformers(folder, pairs):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    begin = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    results = []
    for context, text in pairs:
        before, scored = scored_tokens(tokenizer, context, text, begin)
        ids = (before + scored)[-(network.config.max_position_embeddings + 1) :]
        with torch.no_grad():
            logits = network(torch.tensor([ids[:-1]]), use_cache=False).logits[0, -len(scored) :]
        chosen = torch.tensor(scored)
        log_probabilities = torch.log_softmax(logits, dim=-1).gather(1, chosen[:, None])
        results.append((log_probabilities.sum().item(), bool((logits.argmax(dim=-1) == chosen).all())))
    return results


def mean_and_error(values):
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def best(line, values, measure):
    scores = [value / measure(choice) for choice, value in zip(line["choices"], values, strict=True)]
    return float(scores.index(max(scores)) == line["answer"])


def figures_of(tasks, results):
    """The figures of every task by the harness's definitions."""
    by_task, next_result = {}, iter(results)
    measures = {"acc": lambda choice: 1, "acc_norm": len, "acc_bytes": lambda choice: len(choice.encode())}
    for line in tasks:
        task = by_task.setdefault(line["task"], {"lines": 0, "continuations": [], **{name: [] for name in measures}})
        task["lines"] += 1
        if "choices" not in line:
            value, greedy = next(next_result)
            task["continuations"].append(value)
            task["acc"].append(float(greedy))
            continue
        values = [next(next_result)[0] for _ in line["choices"]]
        for name, measure in measures.items():
            task[name].append(best(line, values, measure))
    figures = {}
    for name, task in by_task.items():
        figures[name] = {"lines": task["lines"]}
        for key in measures:
            if task[key]:
                figures[name][key], figures[name][key + "_stderr"] = mean_and_error(task[key])
        if task["continuations"]:
            figures[name]["perplexity"] = math.exp(-statistics.fmean(task["continuations"]))
    return figures


def compare_rows(tasks, ours, theirs):
    """Prints the largest differences; returns the number of requests that differ."""
    flat = [(value, greedy) for row in ours for value, greedy in zip(row["log_likelihoods"], row["is_greedy"], strict=True)]
    if len(flat) != len(theirs):
        raise RuntimeError(f"viaduct scored {len(flat)} texts, the reference {len(theirs)}")
    names = [(index, line["task"]) for index, line in enumerate(tasks, 1) for _ in line.get("choices", [""])]
    rows = sorted(zip(names, flat, theirs, strict=True), key=lambda row: -abs(row[1][0] - row[2][0]))
    print(f"{'line':>5} {'task':<16} {'viaduct':>14} {'reference':>14} {'difference':>12}")
    for (line, task), mine, other in rows[:8]:
        print(f"{line:>5} {task:<16} {mine[0]:>14.6f} {other[0]:>14.6f} {mine[0] - other[0]:>12.2e}")
    far = [row for row in rows if not abs(row[1][0] - row[2][0]) <= LIMIT + RELATIVE * abs(row[2][0])]
    other_greedy = [row for row in rows if row[1][1] != row[2][1]]
    for (line, task), mine, other in other_greedy:
        print(f"DIFFERENT: line {line} ({task}): greedy {mine[1]}, the reference {other[1]}")
    print(f"{len(rows)} log-likelihoods, {len(far)} differ by more than {LIMIT} and {RELATIVE} of their value; {len(other_greedy)} greedy matches differ")
    return len(far) + len(other_greedy)


def compare_figures(ours, theirs):
    problems = 0
    for task, figures in theirs.items():
        for name, value in figures.items():
            mine = ours[task].get(name)
            same = mine is None if value is None else mine is not None and abs(mine - value) <= 2 * LIMIT * max(1.0, abs(value))
            print(f"{'same     ' if same else 'DIFFERENT'} {task} {name}: {mine} and {value}")
            problems += not same
    return problems


def main():
    parser = argparse.ArgumentParser(prog="oracle tasks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="section.field=value for viaduct eval")
    parser.add_argument("--viaduct", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=pathlib.Path, help="a Hugging Face folder; default: SmolLM2, made in build/smollm2")
    parser.add_argument("--tasks", type=pathlib.Path, help="a file of tasks (JSONL)")
    parser.add_argument("--lines", type=int, default=20, help="tasks about Shakespeare, of each of the two kinds (default 20)")
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch (default 2)")
    parser.add_argument("--few-shot", type=int, default=0, metavar="N", help="examples before each context")
    parser.add_argument("--examples", type=pathlib.Path, default=GOLDEN / "examples.jsonl", help="their file")
    parser.add_argument("--reference", choices=["lm_eval", "transformers"], default="lm_eval")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.set_verbosity_error()
    folder = arguments.model or ROOT / "build" / "smollm2"
    if not arguments.model:
        timed("the model's folder", write_folder, folder)
    tasks = read_tasks(arguments.tasks) if arguments.tasks else read_tasks(GOLDEN / "tasks.jsonl") + shakespeare_tasks(arguments.lines)
    with tempfile.TemporaryDirectory(prefix="viaduct-oracle-") as work:
        file = pathlib.Path(work) / "tasks.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in tasks))
        shots = ["--few-shot", arguments.few_shot, "--examples", arguments.examples] if arguments.few_shot else []
        said = json.loads(timed("viaduct", Viaduct(arguments.viaduct), "eval", "--model", folder, "--tasks", file, "--rows", "--json", *shots,
                                "mixed_precision=fp32", *arguments.overrides))
    pairs = requests_of(tasks, few_shot(arguments.examples, arguments.few_shot))
    reference = {"lm_eval": by_lm_eval, "transformers": by_transformers}[arguments.reference]
    theirs = timed(f"{arguments.reference}, {len(pairs)} texts", reference, folder, pairs)
    problems = compare_rows(tasks, said["rows"], theirs) + compare_figures(said["tasks"], figures_of(tasks, theirs))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
