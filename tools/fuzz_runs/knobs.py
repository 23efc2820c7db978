"""The settings of the program, from `viaduct knobs --json`: which of them a random configuration sets, and random values of each."""

import json
import re
import subprocess

# Sections whose settings say how a run is computed, not what: one rank without them has the same mathematics.
HOW_SECTIONS = {"ddp", "comm_overlap", "memory", "tensor_inspect"}
# The same of the architecture's section, by their names.
HOW_NAMES = re.compile(
    r"parallel(?!_block)|pipeline|overlap|recompute|offload|fusion|deallocate|p2p|microbatch_group|distribute_saved|segments_apart|"
    r"packed_weights|dispatcher|comm_type|moe_expert_capacity_pad|weight_shards|deterministic_mode|variable_seq")
# Sections that say what is computed.
WHAT_SECTIONS = {"model", "optimizer", "scheduler", "mixed_precision", "rng"}
# Settings that a random value of their own makes meaningless: files, sizes that shapes.py chooses together, numbers of ranks that
# layouts.py chooses together, knobs of GPUs, and rates that are legal and only make numbers infinite.
CHOSEN_ELSEWHERE = re.compile(
    r"_path$|_cfg$|hf_config|family|num_layers$|hidden_size|num_attention_heads|vocab|seq_length|seqlen|max_position|_size$|_rank$|"
    r"_dim$|cuda_graph|_patterns|rope_scaling|rotary_base|layernorm_epsilon|softmax_scale|embedding_multiplier|init_method_std|"
    r"window_layers|moe_layer_freq|num_sm|pipeline_model_parallel_layout|hierarchical_context|comm_backend|product_algorithms|"
    r"optimizer\.lr$|min_lr$|mixed_precision\.recipe|loss_scale|_eps\d?$|eps1|lr_warmup_(samples|fraction)|num_moe_experts|"
    r"_samples$|kv_channels|num_query_groups|mixed_precision\.layers_in_bf16|offload_bytes|use_checkpoint_opt|override_opt|tp_comm_overlap_cfg")
# Settings that change numbers by their own rounding, or as their documentation says with the layout.
ROUNDS = re.compile(
    r"dtype|_in_bf16|fp8|fp4|grad_reduce|average_in_collective|fp32_accumulation|residual_connection|local_amax|tp_only_amax|"
    r"precision_aware|store_param_remainders|capacity|router_force|quantile|sinkhorn|softmax_in_fp32|moe_input_jitter|"
    r"muon|adafactor|lion|calculate_per_token_loss")


class Knob:
    def __init__(self, row):
        self.name, self.type, self.default = row["name"], row["type"], row["default"]
        self.section = row["section"]
        planned = set(row["planned_values"])
        allowed = row["allowed"]
        self.choices = [c for c in allowed.split("|") if c and c not in planned] if "string" in self.type else []
        numbers = re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", allowed) if not self.choices else []
        self.low = float(numbers[0]) if numbers else None
        self.high = float(numbers[1]) if len(numbers) > 1 else None
        self.built = row["kind"] == "field" and row["state"]["cpu"] == "built"

    def is_how(self):
        return self.section in HOW_SECTIONS or (self.section == "model" and bool(HOW_NAMES.search(self.name)))

    def is_random(self):
        if not self.built or CHOSEN_ELSEWHERE.search(self.name):
            return False
        if self.section not in HOW_SECTIONS | WHAT_SECTIONS:
            return False
        return bool(self.choices) or re.match(r"(bool|int|number)\b", self.type) is not None

    def rounds(self):
        return ROUNDS.search(self.name) is not None

    def value(self, random):
        """A random legal value, as an override has it."""
        if "or null" in self.type and random.random() < 0.1:
            return "null"
        if "or auto" in self.type and random.random() < 0.1:
            return "auto"
        if self.choices:
            choice = random.choice(self.choices)
            return f"[{choice}]" if self.type.startswith("list") else choice
        if self.type.startswith("bool"):
            return "false" if self.default is True else random.choice(["true", "true", "false"])
        low = 0 if self.low is None else self.low
        if self.type.startswith("int"):
            high = min(low + 8, low + 8 if self.high is None else self.high)
            return str(random.randint(int(low), int(high)))
        default = self.default if isinstance(self.default, (int, float)) and not isinstance(self.default, bool) else 0.1
        value = default * random.choice([0.5, 0.9, 1.5]) if default else random.choice([0.01, 0.1, 0.5])
        if self.high is not None:
            value = min(value, low + 0.95 * (self.high - low))
        return f"{max(value, low):.6g}"


def read_knobs(binary):
    document = subprocess.run([binary, "knobs", "--json"], capture_output=True, text=True, check=True).stdout
    return [Knob(row) for row in json.loads(document)["knobs"] if row["kind"] == "field"]
