"""What Megatron-LM and Transformer Engine hold and Viaduct does not, as closed forms of a row's columns."""


def keeps_scores(row):
    """Attention without a fused kernel keeps its probabilities; Viaduct's makes them again."""
    return row["impl"] == "local" or row["attention_backend"] == "unfused"


def layers_in_flight(row):
    """Layers whose activations the last stage holds when it is fullest: of one micro-batch, with chunks of those of the warm-up."""
    layers, stages = int(row["layers"]), int(row["pp"])
    if row["last_stage_layers"]:
        return int(row["last_stage_layers"])
    of_chunk = 1 if row["vpp"] else int(row["layers_per_vpp_stage"] or 0)
    chunks = int(row["vpp"] or 0) or (layers // (stages * of_chunk) if of_chunk else 1)
    return of_chunk * ((chunks - 1) * stages + 1) if chunks > 1 else layers / stages


def in_a_step(row):
    """Of a row of published_memory.csv. Of each layer: the scores' probabilities and what dropout makes of them in 16 bits, and its
    mask (5 bytes a score; 2 without dropout), and the masks of the two hidden dropouts (a byte an element). Of a fused loss: 10 bytes
    a logit (in 16 bits, widened, and exponentials), where Viaduct keeps 2."""
    rows, length, hidden, tp, cp = (int(row[key] or 1) for key in ("micro_batch", "seq_len", "hidden", "tp", "cp"))
    tokens = rows * length // cp
    layer = 0
    if keeps_scores(row):
        layer += (2 if row["attention_dropout"] == "0.0" else 5) * rows * int(row["heads"]) // tp * length**2
    if row["hidden_dropout"] != "0.0":
        layer += 2 * tokens * hidden // (tp if row["seq_parallel"] == "1" else 1)
    loss = 8 * tokens * int(row["vocab_size"] or 50257) // tp if row["fused_loss"] == "1" else 0
    return layers_in_flight(row) * layer + loss


def workspaces(row, model):
    """Of a row of published_runs.csv of Megatron-LM with Transformer Engine, from Hopper on: three workspaces of cuBLAS, and a gradient
    in 16 bits that nothing reads for each distinct shape of a weight (`get_dummy_wgrad`), that of the head included where it is on the
    fullest rank, which is the first one."""
    size = {key: int(model[key] or 0) for key in model if key not in ("model", "attention", "source", "notes") and model[key].isdigit()}
    hidden, tp, of = size["hidden"], int(row["tp"] or 1), lambda key: size.get(key, 0)
    shapes = {(2 * of("ffn_hidden") / tp, hidden), (hidden, of("ffn_hidden") / tp),
              (2 * of("moe_ffn"), hidden), (hidden, of("moe_ffn")), (2 * of("shared_expert_ffn"), hidden), (hidden, of("shared_expert_ffn"))}
    if model["attention"] == "MLA":
        q, kv, nope, rope, v = (of(key) for key in ("mla_q_lora", "mla_kv_lora", "mla_qk_nope", "mla_qk_rope", "mla_v_dim"))
        heads = of("heads") / tp
        shapes |= {(q, hidden), (heads * (nope + rope), q), (kv + rope, hidden), (heads * (nope + v), kv), (hidden, heads * v)}
    else:
        width = of("head_dim") / tp
        shapes |= {(width * (of("heads") + 2 * of("kv_heads")), hidden), (hidden, width * of("heads"))}
    if row["pp"] == "1":
        shapes.add((of("vocab") / tp, hidden))
    return 3 * 2**25 + sum(2 * out * into for out, into in shapes)
