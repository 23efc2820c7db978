"""Models of `configs/bench` in `transformers`, from Viaduct's resolved configuration (section `model`): mixtures of experts, and what peft
adapts."""


def refuse_unless(model, field, value):
    """Refuses a configuration that the library would train differently."""
    if model[field] != value:
        raise SystemExit(f"peers: model.{field}={model[field]}: expected {value}, which is what transformers computes here")


def dense(m):
    for field, value in (("rope_scaling", None), ("attention_dropout", 0), ("hidden_dropout", 0)):
        refuse_unless(m, field, value)
    return {"vocab_size": m["vocab_size"], "hidden_size": m["hidden_size"], "intermediate_size": m["ffn_hidden_size"],
            "num_hidden_layers": m["num_layers"], "num_attention_heads": m["num_attention_heads"],
            "num_key_value_heads": m["num_query_groups"], "max_position_embeddings": m["max_position_embeddings"],
            "rms_norm_eps": m["layernorm_epsilon"], "rope_theta": float(m["rotary_base"]), "initializer_range": m["init_method_std"],
            "tie_word_embeddings": m["share_embeddings_and_output_weights"], "use_cache": False}


def common(m):
    for field, value in (("moe_aux_loss_coeff", 0), ("moe_router_load_balancing_type", "aux_loss"), ("moe_expert_capacity_factor", None),
                         ("moe_expert_rank_capacity_factor", None), ("moe_router_topk_scaling_factor", None)):
        refuse_unless(m, field, value)
    return {"num_experts_per_tok": m["moe_router_topk"], **dense(m)}


def llama(m):
    from transformers import LlamaConfig

    for field in ("add_qkv_bias", "add_attention_output_bias", "add_mlp_bias"):
        refuse_unless(m, field, False)
    return LlamaConfig(head_dim=m["kv_channels"], **dense(m))


def mixtral(m):
    from transformers import MixtralConfig

    refuse_unless(m, "moe_router_pre_softmax", False)
    refuse_unless(m, "moe_ffn_hidden_size", None)
    return MixtralConfig(num_local_experts=m["num_moe_experts"], sliding_window=None, **common(m))


def deepseek_v2(m):
    from transformers import DeepseekV2Config

    refuse_unless(m, "moe_router_pre_softmax", True)
    layers = m["moe_layer_freq"]
    dense = layers.index(1)
    refuse_unless(m, "moe_layer_freq", [0] * dense + [1] * (m["num_layers"] - dense))
    shared = m["moe_shared_expert_intermediate_size"] // m["moe_ffn_hidden_size"]
    return DeepseekV2Config(q_lora_rank=m["q_lora_rank"], kv_lora_rank=m["kv_lora_rank"], qk_nope_head_dim=m["qk_head_dim"],
                            qk_rope_head_dim=m["qk_pos_emb_head_dim"], v_head_dim=m["v_head_dim"], n_routed_experts=m["num_moe_experts"],
                            n_shared_experts=shared, moe_intermediate_size=m["moe_ffn_hidden_size"], first_k_dense_replace=dense,
                            topk_method="greedy", norm_topk_prob=False, routed_scaling_factor=1.0, n_group=None, topk_group=None,
                            **common(m))


def build(m, attention):
    """A model with random weights; `attention`: "sdpa" or "eager"."""
    from transformers import AutoModelForCausalLM

    makers = {"deepseek_v2": deepseek_v2, "llama": llama, "mixtral": mixtral}
    if m["family"] not in makers:
        raise SystemExit(f"peers: family {m['family']}: expected {' or '.join(makers)}")
    return AutoModelForCausalLM.from_config(makers[m["family"]](m), attn_implementation=attention)
