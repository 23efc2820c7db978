"""Random configurations: what is computed (family, shape, recipe, optimizer, data, adapters), and how (ranks, layout, memory, overlap)."""

from inputs import VOCABULARY

STEPS = 3

TINY = {
    "model.num_layers": 4, "model.hidden_size": 64, "model.ffn_hidden_size": 64, "model.num_attention_heads": 4,
    "model.vocab_size": 64, "model.seq_length": 32, "train.train_iters": STEPS, "train.global_batch_size": 8,
    "train.micro_batch_size": 1, "optimizer.lr": 1e-3, "scheduler.lr_warmup_iters": 0, "dataset.mock": "true",
    "validation.eval_iters": 0, "logger.log_interval": 1, "logger.log_throughput": "false", "dist.threads_per_rank": 1,
}
EXPERTS = {"model.num_moe_experts": 4, "model.moe_router_topk": 2}
LATENT = {"model.q_lora_rank": 32, "model.kv_lora_rank": 32, "model.qk_head_dim": 16, "model.qk_pos_emb_head_dim": 16,
          "model.v_head_dim": 16}
OWN_WIDTH = {"model.moe_ffn_hidden_size": 32}
SHARED = {"model.moe_shared_expert_intermediate_size": 32}
GROUPS = {"model.moe_router_num_groups": 2, "model.moe_router_group_topk": 1}
# FP64 is computed by the reference kernels, which take fifty times as long as the others.
OF_FP64 = {"model.hidden_size": 32, "model.ffn_hidden_size": 32, "train.global_batch_size": 4}


def sizes_of_family(family):
    """Small sizes in place of those that a family brings along."""
    sizes = {}
    latent = "deepseek" in family or family in ("kimi_k2", "glm4_moe_lite")
    if "moe" in family or family in ("mixtral", "gpt_oss", "llama4_text", "minimax_m2", "dots1", "solar_open") or latent:
        sizes.update(EXPERTS)
    if latent:
        sizes.update(LATENT)
    if family in ("deepseek_v3", "kimi_k2", "glm4_moe_lite"):
        sizes.update(GROUPS)
    if ("_moe" in family and family != "hunyuan_v1_moe") or family in ("dots1", "llama4_text", "solar_open") or latent:
        sizes.update(OWN_WIDTH)
    if family in ("qwen2_moe", "glm4_moe", "ernie4_5_moe", "dots1", "llama4_text", "solar_open") or latent:
        sizes.update(SHARED)
    if family == "hunyuan_v1_moe":  # as wide as the others
        sizes["model.moe_shared_expert_intermediate_size"] = TINY["model.ffn_hidden_size"]
    return sizes


class Configuration:
    """`what`: settings of one rank with the same mathematics; `how`: the others, with the number of ranks. `random_names`: those
    that were drawn, which a refusal may remove."""

    def __init__(self):
        self.what, self.how = {}, {}
        self.ranks, self.mpi = 1, False
        self.random_names = set()
        self.rounds = False  # a setting changes rounding

    def overrides(self, with_how):
        chosen = dict(self.what)
        if with_how:
            chosen.update(self.how)
        return [f"{name}={value}" for name, value in chosen.items()]

    def remove(self, names):
        """Removes random settings; false if none of them is here."""
        gone = self.random_names & set(names)
        for name in gone:
            self.what.pop(name, None)
            self.how.pop(name, None)
        self.random_names -= gone
        return bool(gone)

    def text(self):
        launch = f"mpirun -n {self.ranks}" if self.mpi else f"{self.ranks} threads"
        return f"{launch}: {' '.join(self.overrides(True))}"


def choose_conversations(random, what, inputs):
    """Rows of conversations, packed or one each. A mean of means would differ with the micro-batch: only the tokens' mean is drawn."""
    what.update({"dataset.mock": "false", "dataset.blend": f"[{inputs.conversations()}]", "model.vocab_size": VOCABULARY,
                 "model.seq_length": random.choice([64, 64, 128]), "model.calculate_per_token_loss": "true"})
    if random.random() < 0.7:
        what["dataset.packed_sequence_size"] = what["model.seq_length"]
        what["dataset.packing_algorithm"] = random.choice(["first_fit_decreasing", "first_fit_shuffle", "sequential"])
        what["dataset.packing_split"] = random.choice(["false", "true"])
        what["dataset.pad_cu_seqlens"] = random.choice(["false", "false", "true"])
    what["dataset.answer_only_loss"] = random.choice(["true", "true", "false"])


def choose_adapters(random, what):
    """Adapters on a frozen model, with what they are built for."""
    what.update({"peft.scheme": "lora", "peft.dim": random.choice([1, 2, 4, 8]), "peft.alpha": random.choice([4, 16]),
                 "peft.rslora": random.choice(["false", "true"]), "peft.lora_plus_ratio": random.choice([1, 1, 4]),
                 "peft.lora_A_init_method": random.choice(["kaiming", "xavier", "normal"]),
                 "peft.target_modules": random.choice(["[all-linear]", "[linear_qkv]", "[linear_fc1,linear_fc2]", "[linear_proj]"]),
                 "mixed_precision.recipe": random.choice(["fp32", "fp32", "fp64", "bf16_mixed"]),
                 "optimizer.lr": 1e-4})  # small beside the scale of the terms, which is up to 11: rounding shall not become the run
    what.pop("optimizer.optimizer", None)


def begin_with_model(random, what, inputs):
    """A model that exists says its own sizes."""
    for name in [name for name in what if name.startswith("model.") and name not in ("model.seq_length", "model.calculate_per_token_loss")]:
        del what[name]
    what["model.seq_length"] = min(what["model.seq_length"], 128)
    what["checkpoint.pretrained_checkpoint"] = inputs.base(random.choice(["run", "hf", "gguf", "gguf"]))


def choose_tuning(random, what, inputs, keeps_family):
    """Settings of fine-tuning, in a part of the cases; true if the model is one that exists, which is of another family."""
    has_experts = "model.num_moe_experts" in what
    if random.random() < 0.25:
        choose_conversations(random, what, inputs)
    if not has_experts and random.random() < 0.25:
        choose_adapters(random, what)
    if not has_experts and not keeps_family and random.random() < (0.5 if "peft.scheme" in what else 0.1):
        begin_with_model(random, what, inputs)
        return True
    return False


def shrink_fp64(what, has_model):
    """A run in FP64 takes not much longer than another one."""
    what["train.global_batch_size"] = OF_FP64["train.global_batch_size"]
    what["model.seq_length"] = 64 if "dataset.blend" in what else 32  # a conversation takes 64
    if "dataset.packed_sequence_size" in what:
        what["dataset.packed_sequence_size"] = what["model.seq_length"]
    if not has_model:
        what.update(OF_FP64)
        if what["model.family"] == "hunyuan_v1_moe":
            what["model.moe_shared_expert_intermediate_size"] = OF_FP64["model.ffn_hidden_size"]


def choose_what(random, knobs, configuration, inputs, family):
    by_name = {knob.name: knob for knob in knobs}
    chosen = family or random.choice(by_name["model.family"].choices)
    what = {**TINY, **sizes_of_family(chosen), "model.family": chosen}
    what["model.num_layers"] = random.choice([2, 4, 4, 8])
    what["model.seq_length"] = random.choice([32, 32, 64, 128])
    what["train.global_batch_size"] = random.choice([4, 8, 8, 12])
    what["rng.seed"] = random.randrange(1000)
    recipes = by_name["mixed_precision.recipe"].choices
    if chosen == "t5":  # whose products are not quantized
        recipes = [name for name in recipes if "fp8" not in name and "fp4" not in name] or recipes
    what["mixed_precision.recipe"] = random.choice(["fp32", "fp64", "fp32", "bf16_mixed", random.choice(recipes)])
    if random.random() < 0.3:
        what["optimizer.optimizer"] = random.choice(by_name["optimizer.optimizer"].choices)
    has_model = choose_tuning(random, what, inputs, family is not None)
    if what["mixed_precision.recipe"] == "fp64":
        shrink_fp64(what, has_model)
    configuration.what = what
    configuration.random_names.update(name for name in what if name.startswith(("peft.", "dataset.pack", "dataset.pad", "dataset.answer")))
    pool = [knob for knob in knobs if knob.is_random() and not knob.is_how() and knob.name not in what
            and not (has_model and knob.section == "model")]
    add_random(random, configuration, configuration.what, pool, random.choice([0, 1, 1, 2, 3]))


def factors(random, ranks):
    """Sizes of tp, cp, pp whose product divides `ranks`, and what is left for data."""
    sizes, left = [], ranks
    for _ in range(3):
        size = random.choice([n for n in (1, 2, 4) if left % n == 0])
        sizes.append(size)
        left //= size
    random.shuffle(sizes)
    return sizes, left


def choose_encoder(random, what, how, dp):
    """Sizes of an encoder and, in most cases, stages of its own, with the decoder's tensor ranks or others. Returns the number of ranks."""
    length = random.choice([16, 32, 48])
    what.update({"model.encoder_num_layers": random.choice([2, 4]), "model.encoder_seq_length": 64 if "dataset.blend" in what else length})
    tp, cp, pp = (how[f"model.{axis}_parallel_size"] for axis in ("tensor_model", "context", "pipeline_model"))
    if cp > 1:
        how["model.cp_comm_type"] = "all_gather"
    if random.random() < 0.25:
        return dp * cp * tp * pp
    stages, own = random.choice([1, 1, 2]), random.choice([0, 1, 2, 2, 4])
    how.update({"model.encoder_pipeline_model_parallel_size": stages, "model.encoder_tensor_model_parallel_size": own})
    return dp * cp * ((own or tp) * stages + tp * pp)


def choose_how(random, knobs, configuration, with_mpi):
    ranks = random.choice([1, 2, 2, 4, 4])
    (tp, cp, pp), dp = factors(random, ranks)
    how = {"model.tensor_model_parallel_size": tp, "model.context_parallel_size": cp, "model.pipeline_model_parallel_size": pp}
    if "model.num_moe_experts" in configuration.what and random.random() < 0.6:
        ep = random.choice([n for n in (1, 2, 4) if (ranks // pp) % n == 0])
        how["model.expert_model_parallel_size"] = ep
        if (ranks // pp) % (tp * ep):
            how["model.expert_tensor_parallel_size"] = 1
    if configuration.what.get("model.num_layers", 4) % pp:
        configuration.what["model.num_layers"] = 4
    if configuration.what.get("model.family") == "t5":
        ranks = choose_encoder(random, configuration.what, how, dp)
    if pp > 1 and random.random() < 0.3:
        how["model.virtual_pipeline_model_parallel_size"] = 2
        configuration.random_names.add("model.virtual_pipeline_model_parallel_size")
    if random.random() < 0.4:
        how["train.micro_batch_size"] = 2
        configuration.random_names.add("train.micro_batch_size")
    if random.random() < 0.3:
        how["ddp.bucket_size"] = random.choice([0, 1000, 20000])
        configuration.random_names.add("ddp.bucket_size")
    configuration.how, configuration.ranks = how, ranks
    configuration.mpi = with_mpi and ranks > 1 and random.random() < 0.2
    pool = [knob for knob in knobs if knob.is_random() and knob.is_how()]
    add_random(random, configuration, how, pool, random.choice([0, 1, 2, 3, 5]))


def add_random(random, configuration, settings, pool, count):
    for knob in random.sample(pool, min(count, len(pool))):
        settings[knob.name] = knob.value(random)
        configuration.random_names.add(knob.name)
        configuration.rounds |= knob.rounds()


def random_configuration(random, knobs, with_mpi, inputs, family=None):
    """`family`: of the model; None: any."""
    configuration = Configuration()
    choose_what(random, knobs, configuration, inputs, family)
    choose_how(random, knobs, configuration, with_mpi)
    return configuration
