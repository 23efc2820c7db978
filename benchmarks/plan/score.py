#!/usr/bin/env python3
"""Scores `viaduct plan` against published training runs, row by row, on tokens/s per GPU.

score.py --viaduct BIN [--runs CSV] [--models CSV] [--only REGEX] [--jobs N] [--spec-sheet] [--markdown FILE]

Runs and models have the columns of benchmarks/plan/*.csv. A row that cannot be predicted is listed with its reason.
"""
import argparse
import concurrent.futures
import csv
import hashlib
import json
import pathlib
import re
import statistics
import subprocess
import sys

CLUSTERS = {
    "H100-SXM": "dgx-h100", "H200": "dgx-h200", "A100-80GB-SXM": "dgx-a100", "B200": "dgx-b200", "B300": "dgx-b300",
    "GB200": "gb200-nvl72", "GB300": "gb300-nvl72",
}
# Clusters that a source describes otherwise than the maker's system: fields of a cluster file.
OTHER_CLUSTERS = {
    "A800": dict(gpu="a100-80gb-sxm", domain=8, nic_gb_per_second=25, oversubscription=1, gpus_per_host=8,
                 host_memory_gb=1024, source="A800: as A100 but for NVLink"),
    "A100-40GB-SXM": dict(gpu="a100-40gb-sxm", domain=8, nic_gb_per_second=25, oversubscription=1, gpus_per_host=8,
                          host_memory_gb=1152, source="1600 Gb/s a host, as the source says"),
    "InternEvo": dict(gpu="a100-80gb-sxm", domain=8, nic_gb_per_second=6.25, oversubscription=1, gpus_per_host=8,
                      host_memory_gb=1024, source="4 x 100 Gb/s a host, as the source says"),
}

class Unsupported(Exception):
    pass


def number(row, key, default=None):
    return int(float(row[key])) if row.get(key) not in (None, "") else default


def model_overrides(model):
    if model["experts"]:
        raise Unsupported("experts on GPU targets are not scored yet")
    if model["attention"] not in ("MHA", "GQA", "MQA"):
        raise Unsupported(f"attention {model['attention']} on GPU targets is not implemented yet")
    gated = model["gated"] == "1"
    fields = {
        "family": "llama" if gated else "gpt2",
        "num_layers": number(model, "layers"), "hidden_size": number(model, "hidden"),
        "ffn_hidden_size": number(model, "ffn_hidden"), "num_attention_heads": number(model, "heads"),
        "vocab_size": number(model, "vocab"),
        "share_embeddings_and_output_weights": "true" if model["tied_embeddings"] == "yes" else "false",
    }
    if number(model, "kv_heads"):
        fields["num_query_groups"] = number(model, "kv_heads")
    if number(model, "head_dim"):
        fields["kv_channels"] = number(model, "head_dim")
    return fields


def row_overrides(row, model):
    """The overrides of `viaduct plan` for a row."""
    if row["precision"] not in ("bf16", "fp16", "16bit"):
        raise Unsupported(f"precision {row['precision'] or 'not stated'} on GPU targets is not implemented yet")
    fields = model_overrides(model)
    for key in ("n_gpus", "global_batch", "seq_len"):
        if not row[key]:
            raise Unsupported(f"the source does not state {key}")
    gpus, tp, pp, cp = number(row, "n_gpus"), number(row, "tp"), number(row, "pp"), number(row, "cp", 1)
    if tp is None or pp is None:
        raise Unsupported("the source does not state the layout")
    if number(row, "ep", 1) > 1:
        raise Unsupported("experts on GPU targets are not scored yet")
    micro = number(row, "micro_batch", 1)
    fields |= {"seq_length": number(row, "seq_len"), "max_position_embeddings": number(row, "seq_len"),
               "tensor_model_parallel_size": tp, "pipeline_model_parallel_size": pp,
               "context_parallel_size": cp,
               "hidden_dropout": 0, "attention_dropout": 0}
    old = "2021" in row["framework"] or row["id"].startswith("mlm-gpt3")
    if tp > 1 and not old:
        fields["sequence_parallel"] = "true"
    vpp, layers = number(row, "vpp", 1), number(model, "layers")
    if vpp > 1:
        fields["virtual_pipeline_model_parallel_size"] = vpp
    if layers % (pp * vpp) and (layers + 2) % (pp * vpp) == 0:  # embedding and loss take a layer's place each
        fields |= {"account_for_embedding_in_pipeline_split": "true", "account_for_loss_in_pipeline_split": "true"}
    if "LoRA" in row["notes"]:
        raise Unsupported("LoRA is not implemented yet")
    overrides = [f"model.{k}={v}" for k, v in fields.items()]
    overrides += [f"dist.ranks={gpus}", f"train.global_batch_size={number(row, 'global_batch')}",
                  f"train.micro_batch_size={micro}", "mixed_precision=bf16_mixed"]
    hides_tp = row["framework"].startswith(("NeMo", "Megatron-Bridge", "MegaScale")) or row["id"].startswith("mcore-ws")
    if tp > 1 and not hides_tp:
        overrides.append("comm_overlap.tp_comm_overlap=false")
    fsdp = row["fsdp"].lower()
    if "without reshard" in row["notes"]:
        fsdp = "shard_grad_op"
    if fsdp.startswith(("full_shard", "zero3", "fsdp", "yes", "shard_grad_op")) or re.match(r"shard:\d+", fsdp):
        overrides.append("ddp.data_parallel_sharding_strategy=" +
                         ("optim_grads" if fsdp.startswith("shard_grad_op") else "optim_grads_params"))
        if fsdp.startswith(("full", "zero3", "fsdp", "yes", "shard")):
            overrides += ["ddp.use_distributed_optimizer=true", "ddp.overlap_grad_reduce=true",
                          "ddp.overlap_param_gather=true"]
    elif fsdp.startswith("shard-") and "weights" in fsdp:
        raise Unsupported(f"sharding {row['fsdp']} of a single GPU is another feature")
    elif gpus > 1 and not old:
        overrides += ["ddp.use_distributed_optimizer=true", "ddp.overlap_grad_reduce=true",
                      "ddp.overlap_param_gather=true"]
    recompute = row["recompute"]
    if recompute.startswith("full"):
        overrides += ["model.recompute_granularity=full", "model.recompute_method=uniform",
                      "model.recompute_num_layers=1"]
    elif recompute.startswith("recompute-"):
        raise Unsupported(f"recompute {recompute} is not mapped")
    elif recompute not in ("", "none") and not recompute.startswith(("modules:core_attn", "selective")):
        raise Unsupported(f"recompute {recompute} is not mapped")
    return overrides


def cluster_of(row, folder):
    key = "InternEvo" if row["framework"].startswith("InternEvo") else row["hardware"]
    if key in OTHER_CLUSTERS:
        path = folder / f"{key}.yaml"
        path.write_text("".join(f"{k}: {json.dumps(v)}\n" for k, v in OTHER_CLUSTERS[key].items()))
        return str(path)
    if key not in CLUSTERS:
        raise Unsupported(f"hardware {key}: no kernels, or not in the catalog")
    return CLUSTERS[key]


def predict(binary, cluster, overrides, cache):
    key = hashlib.sha256(json.dumps([cluster, overrides]).encode()).hexdigest()[:24]
    kept = cache / f"{key}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    done = subprocess.run([binary, "plan", "--json", "--cluster", cluster, *overrides], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unsupported("viaduct plan: " + done.stderr.strip().splitlines()[0])
    document = json.loads(done.stdout)
    result = dict(document["predicted"], stages=document["stages"])
    kept.write_text(json.dumps(result))
    return result


def calibration(row):
    """Rows that the constants of src/plan/op_time.h and hardware/gpus.yaml were fitted on."""
    return row["framework"].startswith("llm-foundry") or (row["hardware"] == "B200" and row["model"] == "llama3-70b-12L")


def summary(rows, key="error"):
    errors = [r[key] for r in rows]
    sizes = sorted(abs(e) for e in errors)
    return [len(rows), *(f"{100 * x:.1f} %" for x in (
        statistics.mean(sizes), statistics.median(sizes), sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))])),
        f"{100 * statistics.mean(errors):+.1f} %", f"{100 * sum(x <= 0.15 for x in sizes) / len(sizes):.0f} %"]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]) + "\n"


def add_baseline(scored):
    """Errors of a constant share of the dense peak: the median one of the calibration rows."""
    shares = [r["measured"] * r["flops"] / r["peak"] for r in scored if calibration(r["row"])]
    share = statistics.median(shares) if shares else 0.4
    for r in scored:
        r["baseline"] = share * r["peak"] / r["flops"] / r["measured"] - 1
    return share


def groups_of(scored):
    groups = {"all": scored, "calibration rows": [r for r in scored if calibration(r["row"])],
              "**all others**": [r for r in scored if not calibration(r["row"])]}
    for r in scored:
        groups.setdefault(r["row"]["hardware"], []).append(r)
    for r in scored:
        groups.setdefault(r["row"]["framework"].split(" ")[0], []).append(r)
    for r in scored:
        gpus = int(r["row"]["n_gpus"])
        groups.setdefault("1 to 8 GPUs" if gpus <= 8 else "9 to 128 GPUs" if gpus <= 128 else "more GPUs", []).append(r)
    return {name: members for name, members in groups.items() if members}


def report(results, basis):
    scored = [r for r in results if "error" in r]
    share = add_baseline(scored)
    head = ["rows", "n", "mean", "median", "90 % below", "bias", "within 15 %"]
    text = f"Basis: {basis}.\n\n"
    text += table(head, [[name, *summary(members)] for name, members in groups_of(scored).items()])
    text += f"\nA constant {100 * share:.0f} % of the dense peak, the median of the calibration rows, instead:\n\n"
    text += table(head, [[name, *summary(members, "baseline")] for name, members in list(groups_of(scored).items())[:3]])
    worst = sorted((r for r in scored if abs(r["error"]) > 0.25), key=lambda r: -abs(r["error"]))
    text += "\nOff by more than 25 %:\n\n" + table(
        ["row", "GPU", "GPUs", "model", "sequence", "tp · pp · cp", "measured", "predicted", "error"],
        [[r["row"]["id"], r["row"]["hardware"], r["row"]["n_gpus"], r["row"]["model"], r["row"]["seq_len"],
          f"{r['row']['tp']} · {r['row']['pp']} · {r['row']['cp'] or 1}", f"{r['measured']:.0f}", f"{r['predicted']:.0f}",
          f"{100 * r['error']:+.0f} %"] for r in worst])
    reasons = {}
    for r in results:
        if "reason" in r:
            reasons.setdefault(re.sub(r"= \d+|found \d+|num_layers: \d+", "…", r["reason"])[:100], []).append(r["row"]["id"])
    text += "\nLeft out:\n\n" + table(["rows", "reason", "for example"], [
        [len(ids), reason, ids[0]] for reason, ids in sorted(reasons.items(), key=lambda x: -len(x[1]))])
    return text


def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--viaduct", required=True)
    parser.add_argument("--runs", default=here / "published_runs.csv")
    parser.add_argument("--models", default=here / "models.csv")
    parser.add_argument("--only", default="", help="rows whose id matches")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--spec-sheet", action="store_true")
    parser.add_argument("--cache", default="build/plan_score", help="predictions of earlier calls with the same binary")
    parser.add_argument("--markdown", help="writes the tables between the markers of this page")
    options = parser.parse_args()
    cache = pathlib.Path(options.cache) / hashlib.sha256(pathlib.Path(options.viaduct).read_bytes()).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    models = {m["model"]: m for m in csv.DictReader(open(options.models))}
    rows = [r for r in csv.DictReader(open(options.runs)) if re.search(options.only, r["id"])]
    extra = ["--spec-sheet"] if options.spec_sheet else []

    def one(row):
        try:
            if not row["tokens_per_second_per_gpu"]:
                raise Unsupported("no throughput stated")
            if row["model"] not in models:
                raise Unsupported("the model is not in the table")
            model = models[row["model"]]
            got = predict(options.viaduct, cluster_of(row, cache), extra + row_overrides(row, model), cache)
            measured, predicted = float(row["tokens_per_second_per_gpu"]), got["tokens_per_second_per_gpu"]
            flops = float(model["flops_per_token_causal_tf"])
            return dict(row=row, measured=measured, predicted=predicted, error=predicted / measured - 1, flops=flops,
                        peak=got["tflops_per_gpu"] / got["mfu"])
        except Unsupported as problem:
            return dict(row=row, reason=str(problem))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(one, rows))
    text = report(results, "specification sheets" if options.spec_sheet else "one constant per GPU (step_share)")
    if not options.markdown:
        for r in results:
            if "error" in r:
                print(f"{r['row']['id']:24} measured {r['measured']:10.1f} predicted {r['predicted']:10.1f} error "
                      f"{100 * r['error']:+6.1f} %")
        print(text)
        return 0
    page = pathlib.Path(options.markdown)
    name = "spec-sheet" if options.spec_sheet else "fitted"
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, rest = page.read_text().split(begin)
    page.write_text(before + begin + "\n" + text + "\n" + end + rest.split(end)[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
