#!/usr/bin/env python3
"""Makes the tables of docs/plan-accuracy.md from the predictions of `viaduct plan --score`.

score.py --viaduct BIN [--runs CSV] [--constants YAML] [--document JSON] [--memory JSON] [--fit YAML] [--markdown FILE]

--document: a document that `viaduct plan --score RUNS --json` printed earlier, instead of running it. --fit writes a file of
constants: for each GPU the median of published over predicted speed in the rows of FIT_MODELS.
"""
import argparse
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys

import known_memory

# Models that constants are fitted on; every other model is held out.
FIT_MODELS = ("llama3-8b", "llama3.1-8b", "mpt-7b", "internlm-7b", "llama3-70b-12L")
# Models whose families are newer than Llama 3, or have other layers.
NEWER = ("deepseek", "glm", "gpt-oss", "kimi", "llama4", "moonlight", "nemotron", "qwen3")
LEAST_ROWS = 10  # rows that one constant needs at least
SHEETS = "specification sheets"


def calibration(row):
    """Whether the constants of src/plan/op_time.h were fitted on this row."""
    return row["framework"].startswith("llm-foundry")


def summary(errors):
    sizes = sorted(abs(e) for e in errors)
    p90 = sizes[(9 * len(sizes) + 9) // 10 - 1]
    return [len(sizes), *(f"{100 * x:.1f} %" for x in (statistics.mean(sizes), statistics.median(sizes), p90)),
            f"{100 * statistics.mean(errors):+.1f} %", f"{100 * sum(x <= 0.15 for x in sizes) / len(sizes):.0f} %"]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in rows]) + "\n"


def groups_of(scored):
    groups = {"all": scored, "rows of the fit of constants of kernels": [r for r in scored if calibration(r["row"])],
              "**all others**": [r for r in scored if not calibration(r["row"])],
              "**models of no fit**": [r for r in scored if not calibration(r["row"]) and r["row"]["model"] not in FIT_MODELS]}
    for key in (lambda r: f"{r['row']['hardware']}, {r['row']['precision']}", lambda r: r["row"]["framework"].split(" ")[0],
                lambda r: "models with experts" if r["model"]["experts"] else "dense models",
                lambda r: "1 to 8 GPUs" if int(r["row"]["n_gpus"]) <= 8 else
                          "9 to 128 GPUs" if int(r["row"]["n_gpus"]) <= 128 else "more GPUs"):
        for r in sorted(scored, key=key):
            groups.setdefault(key(r), []).append(r)
    return {name: members for name, members in groups.items() if members}


SAME_TRAINING = ("source", "framework", "hardware", "n_gpus", "model", "precision", "global_batch", "seq_len")
LAYOUT = ("micro_batch", "tp", "pp", "vpp", "cp", "ep", "etp", "dp", "fsdp", "recompute")


def layouts_of(rows):
    """One row of each layout, the fastest: others differ in what a layout is not (a compiler, a release's kernels)."""
    fastest = {}
    for r in rows:
        layout = tuple(r["row"][key] for key in LAYOUT)
        if layout not in fastest or r["published"] > fastest[layout]["published"]:
            fastest[layout] = r
    return list(fastest.values())


def regrets(scored):
    """Of each set of rows that differ in layout, micro-batch and recompute alone: how much slower than the fastest row the one is that is
    predicted to be the fastest of those that fit; the same for a row picked at random; and the range of published speeds."""
    sets = {}
    for r in scored:
        sets.setdefault(tuple(r["row"][key] for key in SAME_TRAINING), []).append(r)
    of_sets = []
    for training, rows in sets.items():
        rows = layouts_of(rows)
        best, worst = max(r["published"] for r in rows), min(r["published"] for r in rows)
        if best == worst:
            continue
        pick = max([r for r in rows if r["fits"]] or rows, key=lambda r: r["predicted"])
        random = statistics.mean(1 - r["published"] / best for r in rows)
        of_sets.append({"training": training, "rows": rows, "pick": pick, "regret": 1 - pick["published"] / best, "random": random,
                        "range": 1 - worst / best})
    return of_sets


def regret_report(scored):
    of_sets = regrets(scored)
    if not of_sets:
        return ""
    picked = [s["regret"] for s in of_sets]
    text = (f"\nThe order of layouts: {len(of_sets)} sets of rows ({sum(len(s['rows']) for s in of_sets)}) are of one training (model, GPUs, format, "
            f"batch, sequence, release) with other layouts, micro-batches or recompute; of rows with the same layout the fastest counts. How much slower "
            f"the row that is predicted to be the fastest of those that fit is than the fastest one; the same for a row picked at random; and the "
            f"slowest row:\n\n")
    text += table(["", "mean", "median", "most"], [
        [name, *(f"{100 * value:.1f} %" for value in (statistics.mean(of), statistics.median(of), max(of)))]
        for name, of in (("predicted fastest", picked), ("at random", [s["random"] for s in of_sets]),
                         ("slowest", [s["range"] for s in of_sets]))])
    text += f"\nIn {sum(r == 0 for r in picked)} sets the fastest row is found. Sets with a regret above 3 %:\n\n"
    bad = sorted((s for s in of_sets if s["regret"] > 0.03), key=lambda s: -s["regret"])
    return text + table(["picked", "rows", "model", "GPU", "GPUs", "precision", "regret", "slowest"], [
        [s["pick"]["id"], len(s["rows"]), s["training"][4], s["training"][2], s["training"][3], s["training"][5],
         f"{100 * s['regret']:.1f} %", f"{100 * s['range']:.1f} %"] for s in bad])


def best_share(ratios):
    """The factor of predictions with the least mean error, of published over predicted speeds: their median weighted by predicted over
    published."""
    total, half = 0, sum(1 / ratio for ratio in ratios) / 2
    for ratio in sorted(ratios):
        total += 1 / ratio
        if total >= half:
            return ratio


def constants_report(scored, head):
    """What one factor of the predicted speed for each GPU could do: from the rows of all other models, where there are LEAST_ROWS, and from
    all rows, that of the prediction included."""
    errors = {"none": [], "from the rows of all other models": [], "the best one for all rows, this one included": []}
    for r in scored:
        ratio = r["published"] / r["predicted"]
        own = [(o["row"]["model"], o["published"] / o["predicted"]) for o in scored if o["gpu"] == r["gpu"]]
        others = [value for model, value in own if model != r["row"]["model"]]
        shares = (1, best_share(others) if len(others) >= LEAST_ROWS else 1, best_share([value for _, value in own]))
        for of, share in zip(errors.values(), shares):
            of.append(share / ratio - 1)
    return ("\nOne factor of the predicted speed for each GPU:\n\n" +
            table(head, [[name, *summary(of)] for name, of in errors.items()]))


def newer_models_report(scored, unsupported, rows, head):
    members = {}
    for r in scored:
        if r["row"]["model"].startswith(NEWER):
            members.setdefault(r["row"]["model"], []).append(r)
    everything = [r for some in members.values() for r in some]
    without = [r for r in everything if not r["row"]["model"].startswith("moonlight")]
    named = {"all of them": everything, "without `moonlight-16b-a3b`, whose steps hosts bound": without,
             **{f"`{model}`": members[model] for model in sorted(members)}}
    text = "\nNewer models, those with layers of their own:\n\n" + table(
        head, [[name, *summary([r["error"] for r in some])] for name, some in named.items() if some])
    lacking = {}
    for row in unsupported:
        model = rows[row["id"]]["model"]
        if model.startswith(NEWER) and "attention of kind" in row["reason"]:
            lacking.setdefault((model, re.search("attention of kind (.*?)(?: \\(.*\\))?, so", row["reason"])[1]), []).append(row)
    return text + "\nNot predicted, because the trainer lacks their layers:\n\n" + table(
        ["model", "rows", "layers"], [[f"`{model}`", len(some), kind] for (model, kind), some in sorted(lacking.items())])


def report(scored, unsupported, basis, all_rows):
    head = ["rows", "n", "mean", "median", "90 % below", "bias", "within 15 %"]
    text = f"Basis: {basis}.\n\n" + table(head, [[name, *summary([r["error"] for r in rows])]
                                                 for name, rows in groups_of(scored).items()])
    rates = [r["published"] * float(r["model"]["flops_per_token_causal_tf"]) for r in scored]
    gpus = {r["gpu"] for r in scored}
    peak = {gpu: max(rate for r, rate in zip(scored, rates) if r["gpu"] == gpu) for gpu in gpus}
    share = statistics.median(rate / peak[r["gpu"]] for r, rate in zip(scored, rates))
    constant = [share * peak[r["gpu"]] / rate - 1 for r, rate in zip(scored, rates)]
    text += ("\nInstead of a prediction, one constant for all rows, the median share of the highest model FLOP/s that any row of the"
             " same GPU reaches:\n\n" + table(head, [["all", *summary(constant)]]))
    if basis == SHEETS:
        text += constants_report(scored, head)
        text += newer_models_report(scored, unsupported, all_rows, head)
    text += regret_report(scored)
    worst = sorted((r for r in scored if abs(r["error"]) > 0.25), key=lambda r: -abs(r["error"]))
    text += "\nOff by more than 25 %:\n\n" + table(
        ["row", "GPU", "GPUs", "model", "precision", "sequence", "tp · pp · cp · ep", "published", "predicted", "error"],
        [[r["id"], r["row"]["hardware"], r["row"]["n_gpus"], r["row"]["model"], r["row"]["precision"], r["row"]["seq_len"],
          " · ".join(r["row"][key] or "1" for key in ("tp", "pp", "cp", "ep")), f"{r['published']:.0f}",
          f"{r['predicted']:.0f}", f"{100 * r['error']:+.0f} %"] for r in worst])
    reasons = {}
    for row in unsupported:
        reasons.setdefault(re.sub(r"\d+", "…", row["reason"])[:110], []).append(row["id"])
    text += "\nNot predicted:\n\n" + table(["rows", "reason", "for example"], [
        [len(ids), reason, ids[0]] for reason, ids in sorted(reasons.items(), key=lambda x: -len(x[1]))])
    return text


def counts(scored, rows):
    """Which rows are predicted, in words."""
    mean = lambda members: f"{100 * statistics.mean(abs(r['error']) for r in members):.1f} %"
    adapted = [r for r in scored if "LoRA" in r["row"]["notes"]]
    narrow = sum(r["row"]["precision"].startswith(("fp8", "fp4", "nvfp4", "mxfp8")) for r in scored)
    text = (f"{len(scored)} of the {len(rows)} rows are predicted, {narrow} of them in FP8 or FP4, "
            f"{sum(bool(r['model']['experts']) for r in scored)} of models with experts, {len(adapted)} of LoRA")
    text += f" (mean error {mean(adapted)})" if adapted else ""
    unfit = sum(not r["fits"] for r in scored)
    return text + (f". {unfit} of them need more memory here than the GPU has, which their notes in the document say; [why](#memory). "
                   f"The mean error from specification sheets is {mean(scored)}; the goal is 12 %.\n")


def percent(value):
    return f"{100 * value:+.1f} %"


def errors_of(members):
    """Of rows of memory: mean size and bias of the errors of the peak, of what stays between steps, and of what a step adds, without and
    with what is known to differ."""
    figures = []
    for name in ("peak", "staying", "passing", "with known"):
        errors = [m["errors"][name] for m in members]
        figures += [f"{100 * statistics.mean(map(abs, errors)):.1f} %", percent(statistics.mean(errors))]
    return figures


MEMORY_GROUPS = (
    lambda r: "experts" if r["experts"] else "dense",
    lambda r: "distributed optimizer" if r["dist_opt"] == "1" else "whole optimizer state",
    lambda r: "attention that keeps its scores" if known_memory.keeps_scores(r) else "fused attention",
    lambda r: "fused loss" if r["fused_loss"] == "1" else "loss of single ops",
    lambda r: "one stage" if r["pp"] == "1" else "stages with chunks" if r["layers_per_vpp_stage"] or r["vpp"] else "stages",
    lambda r: f"width {r['hidden']}",
    lambda r: "FP8" if r["precision"].startswith("fp8") else r["precision"].upper(),
)


def parts_report(judged, rows):
    """Errors by component, of the rows that state both."""
    stated = []
    for m in judged:
        if m["id"] in rows and m["published"]:
            errors = {"peak": m["predicted_bytes"] / m["published_bytes"] - 1}
            for part in ("staying", "passing"):
                errors[part] = m["predicted"][part + "_bytes"] / m["published"][part + "_bytes"] - 1
            added = m["predicted"]["passing_bytes"] + known_memory.in_a_step(rows[m["id"]])
            errors["with known"] = added / m["published"]["passing_bytes"] - 1
            stated.append(dict(m, row=rows[m["id"]], errors=errors))
    groups = {"all": stated}
    for key in MEMORY_GROUPS:
        for m in sorted(stated, key=lambda m: key(m["row"])):
            groups.setdefault(key(m["row"]), []).append(m)
    head = ["rows", "n", "peak", "bias", "stays", "bias", "a step adds", "bias", "with known", "bias"]
    return table(head, [[name, len(of), *errors_of(of)] for name, of in groups.items() if of])


def distinct(members):
    """One row of each predicted and published peak: others differ in the number of micro-batches."""
    return list({(m["row"]["model"], m["predicted_bytes"], m["published_bytes"]): m for m in reversed(members)}.values())[::-1]


def peaks_report(judged, rows, models):
    """Of rows of the table of throughput that state their peak."""
    stated = [dict(m, row=rows[m["id"]], error=m["predicted_bytes"] / m["published_bytes"] - 1)
              for m in judged if m["id"] in rows and m["published_bytes"]]
    codes = {}
    for m in stated:
        codes.setdefault(m["row"]["framework"].split(" (")[0], []).append(m)
    text = table(["code", "n", "mean", "bias", "most"], [
        [code, len(of), f"{100 * statistics.mean(abs(m['error']) for m in of):.1f} %", percent(statistics.mean(m["error"] for m in of)),
         percent(max((m["error"] for m in of), key=abs))] for code, of in sorted(codes.items())])
    simumax = distinct([m for m in stated if m["id"].startswith("simumax")])
    for m in simumax:
        m["known"] = m["predicted_bytes"] + known_memory.workspaces(m["row"], models[m["row"]["model"]])
    errors = [[figure / m["published_bytes"] - 1 for figure in (m["predicted_bytes"], m["known"])] for m in simumax]
    means = [statistics.mean(map(abs, column)) for column in zip(*errors)]
    text += (f"\nThe rows of `simumax-*`: {len(simumax)} configurations (the number of micro-batches changes nothing), GiB. Mean error "
             f"{100 * means[0]:.2f} %, with known workspaces {100 * means[1]:.2f} %:\n\n")
    head = ["row", "model", "sequence", "tp · pp · cp · ep", "published", "predicted", "stays", "a step adds", "error", "with known", "error"]
    return text + table(head, [
        [m["id"], m["row"]["model"], m["row"]["seq_len"], " · ".join(m["row"][key] or "1" for key in ("tp", "pp", "cp", "ep")),
         *(f"{value / 2**30:.2f}" for value in (m["published_bytes"], m["predicted_bytes"], m["predicted"]["staying_bytes"],
                                                m["predicted"]["passing_bytes"])), percent(error), f"{m['known'] / 2**30:.2f}", percent(known)]
        for m, (error, known) in zip(simumax, errors)])


def memory_report(runs, models, memory_rows, judged):
    """`judged`: the memory of both tables. Errors by component and by what the runs are; of both tables what fits and what does not."""
    text = parts_report(judged, memory_rows)
    text += "\nPeaks of the fullest stage that the table of throughput states:\n\n" + peaks_report(judged, runs, models)
    ran = [m for m in judged if m["published_fits"]]
    failed = [m for m in judged if not m["published_fits"]]
    text += (f"\nOf {len(ran)} published runs that state their memory and ran, {sum(not m['fits'] for m in ran)} are predicted not to "
             f"fit. Of {len(failed)} that ran out of memory, {sum(m['fits'] for m in failed)} are predicted to fit:\n\n")
    return text + table(["row", "predicted", "of"], [[m["id"], f"{m['predicted_bytes'] / 1e9:.1f} GB", f"{m['capacity_bytes'] / 1e9:.1f} GB"]
                                                     for m in failed])


def fit(scored):
    ratios = {}
    for r in scored:
        if r["row"]["model"] in FIT_MODELS:
            ratios.setdefault(r["gpu"], []).append(r["published"] / r["predicted"])
    shares = [f"  {gpu}: {statistics.median(of):.3f}  # {len(of)} rows" for gpu, of in sorted(ratios.items()) if len(of) >= LEAST_ROWS]
    return "# Made by benchmarks/plan/score.py --fit: medians over the rows of " + ", ".join(FIT_MODELS) + \
        "\nstep_share:\n" + "\n".join(shares) + "\n"


def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct")
    parser.add_argument("--runs", default=here / "published_runs.csv")
    parser.add_argument("--models", default=here / "models.csv")
    parser.add_argument("--constants")
    parser.add_argument("--document")
    parser.add_argument("--memory", help="the document of published_memory.csv: makes tables of memory instead of speed")
    parser.add_argument("--fit")
    parser.add_argument("--markdown", help="write the tables, and the counts of rows, between the markers of this page")
    options = parser.parse_args()
    if options.document:
        document = json.loads(pathlib.Path(options.document).read_text())
    elif options.viaduct:
        command = [options.viaduct, "plan", "--score", str(options.runs), "--json"]
        command += ["--constants", options.constants] if options.constants else []
        document = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    else:
        parser.error("expected --viaduct or --document")
    models = {m["model"]: m for m in csv.DictReader(open(options.models))}
    rows = {r["id"]: r for r in csv.DictReader(open(options.runs))}
    scored = [dict(r, row=rows[r["id"]], model=models[rows[r["id"]]["model"]]) for r in document["rows"]]
    if options.fit:
        pathlib.Path(options.fit).write_text(fit(scored))
    if options.memory:
        memory = json.loads(pathlib.Path(options.memory).read_text())
        of_memory = {r["id"]: r for r in csv.DictReader(open(here / "published_memory.csv"))}
        text = memory_report(rows, models, of_memory, document["memory"] + memory["memory"])
    else:
        text = report(scored, document["unsupported"], "one constant per GPU" if options.constants else SHEETS, rows)
    if not options.markdown:
        print(text)
        return 0
    name = "memory" if options.memory else "fitted" if options.constants else "spec-sheet"
    sections = {name: text}
    if name == "spec-sheet":
        sections["counts"] = counts(scored, rows)
    page = pathlib.Path(options.markdown)
    for name, text in sections.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, rest = page.read_text().split(begin)
        page.write_text(before + begin + "\n" + text + "\n" + end + rest.split(end)[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
