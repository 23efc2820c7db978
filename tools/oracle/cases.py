"""The cases of families.py: small models that together have every feature that Viaduct reads from a config.json.

Each case is a handwritten config.json, in the spelling that every version of transformers reads, and the length of the rows.
Sizes are small and odd on purpose: heads that do not fill the hidden size, windows shorter than the rows, rows longer than the context that
rotary scalings extend.
"""

import transformers


def decoder(model_type, **fields):
    """A model of a Llama-like family; `fields` replace or add fields, None removes one."""
    config = {
        "model_type": model_type, "vocab_size": 300, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    }
    config.update(fields)
    return config


def gpt2(**fields):
    config = {
        "model_type": "gpt2", "vocab_size": 300, "n_embd": 60, "n_layer": 3, "n_head": 4, "n_positions": 256, "bos_token_id": 0,
        "eos_token_id": 0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0,
    }
    config.update(fields)
    return config


def gpt_bigcode(**fields):
    return gpt2(**{"model_type": "gpt_bigcode", **fields})


def gpt_neo(**fields):
    return {
        "model_type": "gpt_neo", "vocab_size": 300, "hidden_size": 60, "num_layers": 3, "num_heads": 4, "max_position_embeddings": 256,
        "attention_types": [[["global", "local"], 1], [["local"], 1]], "window_size": 17, "bos_token_id": 0, "eos_token_id": 0, **fields}


def gptj(**fields):
    return {
        "model_type": "gptj", "vocab_size": 300, "n_embd": 60, "n_layer": 3, "n_head": 3, "n_positions": 256, "rotary_dim": 8,
        "bos_token_id": 0, "eos_token_id": 0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": False, **fields}


def gemma4(**fields):
    """Gemma 4 without embeddings of each layer: other heads in layers without a window."""
    return decoder("gemma4_text", **{"rope_theta": None, "tie_word_embeddings": True, "hidden_size_per_layer_input": 0, "head_dim": 20,
                                     "global_head_dim": 28, "num_hidden_layers": 3, "sliding_window": 13,
                                     "layer_types": [SLIDING, FULL, FULL], **fields})


def falcon(**fields):
    return {
        "model_type": "falcon", "vocab_size": 300, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
        "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True, **fields}


def bloom(**fields):
    config = {"model_type": "bloom", "vocab_size": 300, "hidden_size": 60, "n_layer": 3, "n_head": 4, "seq_length": 256}
    config.update(fields)
    return config


def mpt(**fields):
    config = {"model_type": "mpt", "vocab_size": 300, "d_model": 60, "n_layers": 3, "n_heads": 4, "max_seq_len": 256}
    config.update(fields)
    return config


def opt(**fields):
    config = {
        "model_type": "opt", "vocab_size": 300, "hidden_size": 60, "ffn_dim": 112, "num_hidden_layers": 3, "num_attention_heads": 4,
        "max_position_embeddings": 256, "word_embed_proj_dim": 60, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "dropout": 0.0,
    }
    config.update(fields)
    return config


def t5(**fields):
    config = {
        "model_type": "t5", "vocab_size": 300, "d_model": 60, "d_kv": 14, "d_ff": 112, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 5,
        "feed_forward_proj": "relu", "dropout_rate": 0.0, "tie_word_embeddings": True, "is_encoder_decoder": True,
        "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
    }
    config.update(fields)
    return config


def rope(kind, **fields):
    return {"rope_scaling": {"rope_type": kind, **fields}}


def deepseek(model_type, **fields):
    """Latent attention and a dense layer before the layers with experts; the layer norms' epsilon equals that of the compressed vectors.

    No scaling of V2 here has mscale_all_dim: transformers 4.56 leaves out its factor on the scores, which DeepSeek's code has and
    transformers got later (pull request 47435).
    """
    return decoder(model_type, **{
        "rms_norm_eps": 1e-6, "num_key_value_heads": 4, "num_hidden_layers": 3, "q_lora_rank": 40, "kv_lora_rank": 32,
        "qk_nope_head_dim": 20, "qk_rope_head_dim": 12, "v_head_dim": 28, "n_routed_experts": 6, "n_shared_experts": 2,
        "num_experts_per_tok": 2, "moe_intermediate_size": 40, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5,
        "norm_topk_prob": False, **fields})


def llama4(**fields):
    return decoder("llama4_text", **{"head_dim": 16, "intermediate_size": 40, "intermediate_size_mlp": 112, "num_hidden_layers": 4,
                                     "num_local_experts": 6, "num_experts_per_tok": 1, "attention_chunk_size": 19,
                                     "floor_scale": 16, "attn_scale": 0.4, **fields})


def shared_experts(model_type, **fields):
    """DeepSeek-V3's experts behind another attention, and a dense layer before those that have them."""
    return decoder(model_type, **{
        "num_hidden_layers": 3, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "first_k_dense_replace": 1, "routed_scaling_factor": 1.5, "norm_topk_prob": True, "n_group": 1, "topk_group": 1, **fields})


LONG_ROPE = {"original_max_position_embeddings": 64, **rope("longrope", short_factor=[1.0, 1.1, 1.5, 2.0, 2.5, 3.0],
                                                            long_factor=[1.0, 1.5, 2.0, 3.0, 5.0, 8.0])}
MINISTRAL = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64,
             "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}
SLIDING, FULL = "sliding_attention", "full_attention"

# name: (config.json, length of the rows)
CASES = {
    "gpt2": (gpt2(), 64),
    "gpt2_untied_inner": (gpt2(tie_word_embeddings=False, n_inner=100, n_embd=48, n_head=3, layer_norm_epsilon=1e-4), 200),
    "gpt2_gelu": (gpt2(activation_function="gelu"), 64),
    "gpt2_relu": (gpt2(activation_function="relu"), 64),
    "gpt2_quick_gelu": (gpt2(activation_function="quick_gelu"), 64),
    "gpt2_silu_unscaled": (gpt2(activation_function="silu", scale_attn_weights=False), 64),
    "gpt_bigcode": (gpt_bigcode(), 64),
    "gpt_bigcode_own_keys": (gpt_bigcode(multi_query=False, tie_word_embeddings=False, n_inner=100, n_embd=48, n_head=3,
                                         layer_norm_epsilon=1e-4, scale_attn_weights=False), 200),
    "gpt_neo": (gpt_neo(), 64),
    "gpt_neo_inner": (gpt_neo(tie_word_embeddings=False, intermediate_size=100, activation_function="gelu", layer_norm_epsilon=1e-4,
                              num_layers=4, attention_types=[[["local", "global"], 2]]), 200),
    "llama": (decoder("llama"), 64),
    "llama_tied_long": (decoder("llama", tie_word_embeddings=True, num_hidden_layers=3), 200),
    "llama_biases": (decoder("llama", attention_bias=True, mlp_bias=True), 64),
    "llama_wide_heads": (decoder("llama", hidden_size=48, head_dim=20, num_attention_heads=6, num_key_value_heads=3), 200),
    "llama_narrow_heads": (decoder("llama", hidden_size=90, head_dim=10, num_attention_heads=5, num_key_value_heads=1), 64),
    "llama_every_head": (decoder("llama", num_key_value_heads=4, hidden_act="gelu", rms_norm_eps=1e-3), 64),
    "llama_relu2": (decoder("llama", hidden_act="relu2"), 64),
    "llama_rope_linear": (decoder("llama", **rope("linear", factor=3.5)), 200),
    "llama_rope_llama3": (decoder("llama", rope_theta=500000.0, **rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)), 200),
    "llama_rope_yarn": (decoder("llama", **rope("yarn", factor=4.0, original_max_position_embeddings=64)), 200),
    "llama_rope_yarn_alone": (decoder("llama", **rope("yarn", factor=2.5)), 200),
    "llama_rope_yarn_attention": (decoder("llama", **rope(
        "yarn", factor=4.0, original_max_position_embeddings=64, attention_factor=1.3, beta_fast=16.0, beta_slow=2.0)), 200),
    "llama_rope_yarn_mscale": (decoder("llama", **rope(
        "yarn", factor=4.0, original_max_position_embeddings=64, mscale=1.2, mscale_all_dim=0.7)), 200),
    "llama_rope_yarn_not_truncated": (decoder("llama", rope_theta=1000.0, head_dim=24, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=64, truncate=False)), 200),
    "mistral": (decoder("mistral", sliding_window=None), 64),
    "mistral_window": (decoder("mistral", sliding_window=17, head_dim=12), 200),
    "qwen2": (decoder("qwen2", tie_word_embeddings=True), 64),
    "qwen2_window": (decoder("qwen2", num_hidden_layers=4, use_sliding_window=True, sliding_window=23, max_window_layers=2), 200),
    "qwen2_layer_types": (decoder("qwen2", num_hidden_layers=3, use_sliding_window=True, sliding_window=9, max_window_layers=3,
                                  layer_types=[SLIDING, FULL, SLIDING]), 64),
    "qwen2_yarn": (decoder("qwen2", **rope("yarn", factor=4.0, original_max_position_embeddings=64)), 200),
    "qwen3": (decoder("qwen3", head_dim=36), 64),
    "qwen3_head_128": (decoder("qwen3", hidden_size=48, num_attention_heads=2, num_key_value_heads=1, head_dim=128), 200),
    "qwen3_bias_window": (decoder("qwen3", head_dim=18, attention_bias=True, num_hidden_layers=3, use_sliding_window=True,
                                  sliding_window=31, max_window_layers=1, tie_word_embeddings=True), 200),
    "mixtral": (decoder("mixtral", num_local_experts=5, num_experts_per_tok=2, sliding_window=None), 64),
    "mixtral_three": (decoder("mixtral", num_local_experts=8, num_experts_per_tok=3, sliding_window=None, hidden_act="gelu"), 200),
    "qwen2_moe": (decoder("qwen2_moe", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=40,
                          shared_expert_intermediate_size=72), 64),
    "qwen3_moe": (decoder("qwen3_moe", head_dim=36, num_experts=12, num_experts_per_tok=4, moe_intermediate_size=40,
                          norm_topk_prob=True), 64),
    "qwen3_moe_not_normed": (decoder("qwen3_moe", head_dim=16, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=56,
                                     norm_topk_prob=False, num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3]), 64),
    "olmoe": (decoder("olmoe", num_experts=8, num_experts_per_tok=3), 64),
    "olmoe_normed": (decoder("olmoe", num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, attention_bias=True,
                             num_key_value_heads=4), 200),
    "deepseek_v2": (deepseek("deepseek_v2"), 64),
    "deepseek_v2_no_q_rank": (deepseek("deepseek_v2", q_lora_rank=None, n_shared_experts=1, first_k_dense_replace=0), 200),
    "deepseek_v2_yarn": (deepseek("deepseek_v2", **rope("yarn", factor=4.0, original_max_position_embeddings=64)), 200),
    "deepseek_v2_groups": (deepseek("deepseek_v2", n_routed_experts=8, topk_method="group_limited_greedy", n_group=4,
                                    topk_group=2), 64),
    "deepseek_v3": (deepseek("deepseek_v3", n_routed_experts=12, num_experts_per_tok=3, n_group=4, topk_group=2,
                             n_shared_experts=1, norm_topk_prob=True), 64),
    "deepseek_v3_not_normed": (deepseek("deepseek_v3", n_routed_experts=8, n_group=2, topk_group=1, q_lora_rank=None, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=64, mscale=1.0, mscale_all_dim=1.0)), 200),
    # Epsilons so large that those of the norms on compressed vectors show.
    "moonlight": (deepseek("deepseek_v3", rms_norm_eps=0.05, n_group=1, topk_group=1, q_lora_rank=None, norm_topk_prob=True,
                            num_nextn_predict_layers=0), 64),
    "moonlight_q_rank": (deepseek("deepseek_v3", rms_norm_eps=0.02, n_group=1, topk_group=1, first_k_dense_replace=0,
                                   num_nextn_predict_layers=0), 200),
    "glm4_moe": (shared_experts("glm4_moe", head_dim=16, attention_bias=True, num_nextn_predict_layers=0), 64),
    "glm4_moe_norms": (shared_experts("glm4_moe", head_dim=20, use_qk_norm=True, n_group=4, topk_group=2, num_experts_per_tok=3,
                                      partial_rotary_factor=0.8, num_nextn_predict_layers=0), 200),
    "glm4_moe_lite": (deepseek("glm4_moe_lite", n_shared_experts=1, n_group=1, topk_group=1, norm_topk_prob=True, rms_norm_eps=0.05,
                               num_nextn_predict_layers=0), 64),
    "glm4_moe_lite_dense": (deepseek("glm4_moe_lite", n_group=3, topk_group=2, q_lora_rank=None, first_k_dense_replace=2,
                                     mlp_layer_types=["dense", "dense", "sparse"], num_nextn_predict_layers=0, **rope(
                                         "yarn", factor=4.0, original_max_position_embeddings=64)), 200),
    "dots1": (shared_experts("dots1", num_key_value_heads=4, n_shared_experts=2, sliding_window=None), 64),
    "dots1_window": (shared_experts("dots1", attention_bias=True, norm_topk_prob=False, sliding_window=23, max_window_layers=1), 200),
    "ernie4_5_moe": (decoder("ernie4_5_moe", num_hidden_layers=3, moe_num_experts=6, moe_k=2, moe_intermediate_size=40,
                             moe_num_shared_experts=2, tie_word_embeddings=True), 64),
    "ernie4_5_moe_spread": (decoder("ernie4_5_moe", num_hidden_layers=5, moe_num_experts=8, moe_k=3, moe_intermediate_size=40,
                                    moe_num_shared_experts=0, moe_layer_start_index=0, moe_layer_end_index=3, moe_layer_interval=2),
                            200),
    "minimax_m2": (decoder("minimax_m2", head_dim=20, rotary_dim=10, num_local_experts=6, num_experts_per_tok=2), 64),
    "minimax_m2_whole": (decoder("minimax_m2", head_dim=12, num_key_value_heads=1, num_local_experts=8, num_experts_per_tok=3), 200),
    "granitemoe": (decoder("granitemoe", tie_word_embeddings=True, embedding_multiplier=4.0, attention_multiplier=0.2,
                           residual_multiplier=0.3, logits_scaling=3.0, num_local_experts=5, num_experts_per_tok=2), 64),
    "granitemoe_bias": (decoder("granitemoe", attention_bias=True, attention_multiplier=0.3, num_local_experts=6,
                                num_experts_per_tok=3), 200),
    "granitemoeshared": (decoder("granitemoeshared", tie_word_embeddings=True, embedding_multiplier=4.0, attention_multiplier=0.2,
                                 residual_multiplier=0.3, logits_scaling=3.0, num_local_experts=5, num_experts_per_tok=2,
                                 shared_intermediate_size=72), 64),
    "granitemoeshared_bias": (decoder("granitemoeshared", attention_bias=True, attention_multiplier=0.3, num_local_experts=6,
                                      num_experts_per_tok=3, shared_intermediate_size=40), 200),
    "gpt_oss": (decoder("gpt_oss", num_hidden_layers=4, head_dim=20, sliding_window=17, num_local_experts=6, num_experts_per_tok=2,
                        intermediate_size=40), 64),
    "gpt_oss_yarn": (decoder("gpt_oss", head_dim=16, sliding_window=40, num_local_experts=5, num_experts_per_tok=3,
                             intermediate_size=40, layer_types=[FULL, SLIDING], **rope(
                                 "yarn", factor=4.0, original_max_position_embeddings=64, truncate=False)), 200),
    "gemma": (decoder("gemma", tie_word_embeddings=True, head_dim=24, num_key_value_heads=1), 64),
    "gemma_bias": (decoder("gemma", tie_word_embeddings=True, head_dim=16, attention_bias=True), 200),
    "gemma_untied": (decoder("gemma", tie_word_embeddings=False, head_dim=20, hidden_act="gelu_pytorch_tanh"), 64),
    "gemma2": (decoder("gemma2", tie_word_embeddings=True, head_dim=24, num_hidden_layers=4, sliding_window=13,
                       query_pre_attn_scalar=40, attn_logit_softcapping=2.0, final_logit_softcapping=3.0), 200),
    "gemma2_short": (decoder("gemma2", tie_word_embeddings=True, head_dim=16, sliding_window=100, query_pre_attn_scalar=16), 64),
    "gemma2_no_caps": (decoder("gemma2", tie_word_embeddings=True, head_dim=14, sliding_window=20, query_pre_attn_scalar=14,
                               attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True), 64),
    "gemma2_layer_types": (decoder("gemma2", tie_word_embeddings=True, head_dim=16, num_hidden_layers=3, sliding_window=7,
                                   layer_types=[FULL, SLIDING, SLIDING], query_pre_attn_scalar=24), 64),
    "gemma3_text": (decoder("gemma3_text", tie_word_embeddings=True, head_dim=24, num_hidden_layers=4, sliding_window=13,
                            sliding_window_pattern=2, query_pre_attn_scalar=40, rope_theta=1000000.0, rope_local_base_freq=10000.0), 200),
    "gemma3_text_scaled": (decoder("gemma3_text", tie_word_embeddings=True, head_dim=16, num_hidden_layers=3, sliding_window=30,
                                   layer_types=[FULL, SLIDING, FULL], query_pre_attn_scalar=16, rope_theta=5000.0,
                                   rope_local_base_freq=100.0, **rope("linear", factor=8.0)), 200),
    "gemma3_text_caps": (decoder("gemma3_text", tie_word_embeddings=True, head_dim=16, sliding_window=100, query_pre_attn_scalar=16,
                                 final_logit_softcapping=3.0, attention_bias=True), 64),
    "smollm3": (decoder("smollm3", tie_word_embeddings=True, num_hidden_layers=5), 64),
    "smollm3_window": (decoder("smollm3", num_hidden_layers=3, no_rope_layers=[0, 1, 0], use_sliding_window=True, sliding_window=19,
                               layer_types=[SLIDING, FULL, SLIDING], mlp_bias=True), 200),
    "olmo": (decoder("olmo"), 64),
    "olmo_bias": (decoder("olmo", num_key_value_heads=4, attention_bias=True, tie_word_embeddings=True, hidden_act="gelu"), 200),
    "olmo2": (decoder("olmo2"), 64),
    "olmo2_bias": (decoder("olmo2", num_key_value_heads=4, attention_bias=True, tie_word_embeddings=True, hidden_act="gelu"), 200),
    # transformers 5 takes no other base for the layers with a window from a file of version 4.
    "olmo3": (decoder("olmo3", num_hidden_layers=4, sliding_window=17, rope_theta=500000.0, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=64)), 200),
    "olmo3_layer_types": (decoder("olmo3", num_hidden_layers=3, sliding_window=9, layer_types=[FULL, SLIDING, SLIDING],
                                  rope_theta=500000.0), 64),
    "llama4_text": (llama4(), 64),
    "llama4_text_dense_layers": (llama4(interleave_moe_layer_step=2, use_qk_norm=False, no_rope_layers=[0, 1, 1, 0],
                                        attn_temperature_tuning=False), 200),
    "llama4_text_scaled": (llama4(num_hidden_layers=3, no_rope_layers=[1, 1, 0], attention_chunk_size=50, tie_word_embeddings=True, **rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)), 200),
    "bloom": (bloom(), 64),
    "bloom_six_heads": (bloom(n_head=6, layer_norm_epsilon=1e-4, tie_word_embeddings=False), 200),
    "mpt": (mpt(), 64),
    "mpt_five_heads": (mpt(n_heads=5, attn_config={"softmax_scale": 0.4}, tie_word_embeddings=False), 200),
    "opt": (opt(), 64),
    "opt_gelu_untied": (opt(activation_function="gelu", enable_bias=False, tie_word_embeddings=False), 200),
    "t5": (t5(), 64),
    "t5_few_buckets": (t5(feed_forward_proj="gelu", num_heads=3, d_kv=28, num_layers=4, num_decoder_layers=1, relative_attention_num_buckets=10,
                          relative_attention_max_distance=37, layer_norm_epsilon=1e-4), 64),
    "t5_v1_1": (t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False, d_ff=100), 64),
    "t5_gated_silu": (t5(feed_forward_proj="gated-silu", tie_word_embeddings=False, num_heads=4, d_kv=9), 200),
    "phi3": (decoder("phi3", num_key_value_heads=4, sliding_window=None), 64),
    "phi3_part_window": (decoder("phi3", num_key_value_heads=1, partial_rotary_factor=0.75, sliding_window=21,
                                 tie_word_embeddings=True), 200),
    "phi3_longrope": (decoder("phi3", partial_rotary_factor=0.75, sliding_window=None, **LONG_ROPE), 200),
    "phi3_longrope_short": (decoder("phi3", partial_rotary_factor=0.75, sliding_window=None, **LONG_ROPE), 64),
    "glm": (decoder("glm", head_dim=16, attention_bias=True), 64),
    "glm4": (decoder("glm4", head_dim=24, attention_bias=False, num_key_value_heads=1), 200),
    "glm4_bias": (decoder("glm4", head_dim=16, attention_bias=True, partial_rotary_factor=0.25, tie_word_embeddings=True), 64),
    "granite": (decoder("granite", tie_word_embeddings=True, embedding_multiplier=4.0, attention_multiplier=0.2,
                        residual_multiplier=0.3, logits_scaling=3.0), 64),
    "granite_biases": (decoder("granite", attention_bias=True, mlp_bias=True, attention_multiplier=0.3, residual_multiplier=1.5,
                               logits_scaling=0.8), 200),
    "seed_oss": (decoder("seed_oss", head_dim=24, attention_dropout=0.0, residual_dropout=0.0), 64),
    "seed_oss_biases": (decoder("seed_oss", head_dim=16, attention_bias=False, attention_out_bias=True, mlp_bias=True,
                                attention_dropout=0.0, residual_dropout=0.0), 200),
    "arcee": (decoder("arcee"), 64),
    "arcee_yarn": (decoder("arcee", mlp_bias=True, attention_bias=True, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=64)), 200),
    "ernie4_5": (decoder("ernie4_5", head_dim=20, tie_word_embeddings=True), 64),
    "ernie4_5_bias": (decoder("ernie4_5", head_dim=16, use_bias=True), 200),
    "starcoder2": (decoder("starcoder2", norm_epsilon=1e-4, sliding_window=None, tie_word_embeddings=True), 64),
    "starcoder2_window": (decoder("starcoder2", sliding_window=25, use_bias=False, hidden_act="gelu", tie_word_embeddings=False), 200),
    "stablelm": (decoder("stablelm", num_attention_heads=2, num_key_value_heads=2, layer_norm_eps=1e-4), 64),
    "stablelm_bias": (decoder("stablelm", num_key_value_heads=1, use_qkv_bias=True, partial_rotary_factor=0.5), 200),
    "stablelm_parallel": (decoder("stablelm", num_key_value_heads=2, use_parallel_residual=True), 64),
    "stablelm_norms": (decoder("stablelm", num_key_value_heads=1, use_parallel_residual=True, qk_layernorm=True), 200),
    "gpt_neox": (decoder("gpt_neox", num_key_value_heads=None, layer_norm_eps=1e-4, rotary_pct=0.5), 64),
    "gpt_neox_sequential": (decoder("gpt_neox", num_key_value_heads=None, use_parallel_residual=False, attention_bias=False,
                                    rotary_pct=1.0, rotary_emb_base=500, rope_theta=None, tie_word_embeddings=True), 200),
    "gpt_neox_linear": (decoder("gpt_neox", num_key_value_heads=None, rotary_pct=0.25, hidden_act="gelu_new", **rope("linear", factor=3.0)), 200),
    "phi": (decoder("phi", num_key_value_heads=4), 64),
    "phi_groups": (decoder("phi", num_key_value_heads=1, partial_rotary_factor=0.75, layer_norm_eps=1e-4, hidden_act="gelu"), 200),
    "cohere": (decoder("cohere", tie_word_embeddings=True, logit_scale=0.3), 64),
    "cohere_untied": (decoder("cohere", attention_bias=True, num_key_value_heads=4, layer_norm_eps=1e-4), 200),
    "cohere_norms": (decoder("cohere", use_qk_norm=True, tie_word_embeddings=True), 64),
    "cohere2": (decoder("cohere2", num_hidden_layers=4, tie_word_embeddings=True, sliding_window=17, logit_scale=0.5), 200),
    "cohere2_pattern": (decoder("cohere2", num_hidden_layers=3, sliding_window=9, layer_types=[FULL, SLIDING, FULL],
                                attention_bias=True), 64),
    "falcon": (falcon(), 64),
    "falcon_groups": (falcon(new_decoder_architecture=True, num_kv_heads=2, bias=True), 200),
    "falcon_one_norm": (falcon(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1,
                               tie_word_embeddings=False), 64),
    "falcon_sequential": (falcon(multi_query=False, parallel_attn=False, bias=True, rope_theta=500.0), 200),
    "falcon_alibi": (falcon(alibi=True, multi_query=False, parallel_attn=False, bias=True), 64),
    # Of heads whose slopes BF16 holds, and so few positions that their products do: transformers rounds both.
    "falcon_alibi_groups": (falcon(alibi=True, new_decoder_architecture=True, num_kv_heads=2), 200),
    "falcon_every_head": (falcon(multi_query=False, ffn_hidden_size=100, layer_norm_epsilon=1e-4), 64),
    "gptj": (gptj(), 64),
    "gptj_tied": (gptj(tie_word_embeddings=True, n_inner=100, rotary_dim=14, n_head=3, n_embd=48, activation_function="gelu"), 200),
    "exaone4": (decoder("exaone4", head_dim=16, sliding_window=None, layer_types=[FULL, FULL]), 64),
    "exaone4_window": (decoder("exaone4", head_dim=20, num_hidden_layers=4, sliding_window=21, sliding_window_pattern=4,
                               **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                      original_max_position_embeddings=64)), 200),
    "llama_rope_dynamic": (decoder("llama", **rope("dynamic", factor=4.0)), 200),
    "apertus": (decoder("apertus", num_hidden_layers=3, rope_scaling={"rope_type": "default"}), 64),
    "apertus_llama3": (decoder("apertus", attention_bias=True, **rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)), 200),
    "helium": (decoder("helium", head_dim=16), 64),
    "helium_bias": (decoder("helium", head_dim=16, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-8), 200),
    "hunyuan_v1_dense": (decoder("hunyuan_v1_dense", head_dim=20), 64),
    "hunyuan_v1_dense_alpha": (decoder("hunyuan_v1_dense", head_dim=18, tie_word_embeddings=True, **rope(
        "dynamic", alpha=50.0, factor=1.0)), 200),
    "hunyuan_v1_moe": (decoder("hunyuan_v1_moe", head_dim=20, num_experts=6, moe_topk=2), 64),
    "hunyuan_v1_moe_alpha": (decoder("hunyuan_v1_moe", head_dim=18, tie_word_embeddings=True, num_experts=8, moe_topk=3, **rope(
        "dynamic", alpha=50.0, factor=1.0)), 200),
    "phimoe": (decoder("phimoe", num_local_experts=6, router_jitter_noise=0.4), 64),
    # Rows of the original length: transformers 5 has the short list for longer ones, too.
    "phimoe_bias": (decoder("phimoe", attention_bias=True, lm_head_bias=True, num_local_experts=8, router_jitter_noise=0.25,
                            sliding_window=23, **rope(
        "longrope", original_max_position_embeddings=200, short_factor=[1.0, 1.1, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0],
        long_factor=[1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 9.0, 9.5], short_mscale=1.2, long_mscale=1.2)), 200),
    "nemotron": (decoder("nemotron", norm_eps=1e-5), 64),
    "nemotron_bias": (decoder("nemotron", norm_eps=1e-4, head_dim=24, attention_bias=True, mlp_bias=True,
                              partial_rotary_factor=0.25), 200),
}
# Families that transformers 4.56 does not have.
NEWER = {
    # The positions of its class, which a file without any has, and its windows.
    "cwm": (decoder("cwm", head_dim=20, rope_theta=None, num_hidden_layers=5, sliding_window=17), 200),
    "cwm_bias": (decoder("cwm", head_dim=16, mlp_bias=True, tie_word_embeddings=True, sliding_window=9, layer_types=[SLIDING, FULL],
                         rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 1000.0}), 64),
    "ministral": (decoder("ministral", head_dim=20, num_hidden_layers=3, sliding_window=17, layer_types=[FULL, SLIDING, SLIDING]), 200),
    "ministral_window": (decoder("ministral", head_dim=12, sliding_window=9, tie_word_embeddings=True), 64),
    "solar_open": (shared_experts("solar_open", head_dim=16, intermediate_size=None, first_k_dense_replace=0), 64),
    "solar_open_groups": (shared_experts("solar_open", head_dim=20, attention_bias=True, n_shared_experts=2, n_group=4, topk_group=2,
                                         num_experts_per_tok=3, norm_topk_prob=False, first_k_dense_replace=0, **rope(
                                             "yarn", factor=4.0, original_max_position_embeddings=64)), 200),
    "gemma4_text": (gemma4(final_logit_softcapping=3.0), 200),
    "gemma4_text_keys": (gemma4(attention_k_eq_v=True, num_global_key_value_heads=1, rope_parameters={
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 5000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}), 200),
    "gemma4_text_bias": (gemma4(attention_bias=True, global_head_dim=20, num_global_key_value_heads=4, attention_k_eq_v=True,
                                num_hidden_layers=6, layer_types=None, tie_word_embeddings=False), 64),
    "ministral3": (decoder("ministral3", head_dim=20, rope_parameters=MINISTRAL), 200),
    "ministral3_window": (decoder("ministral3", head_dim=16, sliding_window=31, num_hidden_layers=3, rope_parameters={
        **MINISTRAL, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 32}), 200),
    "vaultgemma": (decoder("vaultgemma", tie_word_embeddings=True, head_dim=24, num_hidden_layers=4, sliding_window=13,
                           query_pre_attn_scalar=40, attn_logit_softcapping=2.0, final_logit_softcapping=3.0), 200),
}
if transformers.__version__.split(".")[0] != "4":
    CASES.update(NEWER)


def with_images(model_type, text, vision, **fields):
    """A model that takes images, whose text model is that of `text`."""
    return {"model_type": model_type, "text_config": text, "vision_config": vision, "tie_word_embeddings": text["tie_word_embeddings"], **fields}


def small(config, **fields):
    """A model small enough to be stored with its gradients."""
    return {**config, "vocab_size": 59, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 2, "max_position_embeddings": 64,
            **fields}


# The cases that tests/parity stores. name of the folder: (config.json, length of the rows)
STORED = {
    "cwm": (small(decoder("cwm", head_dim=6, mlp_bias=True, sliding_window=7, layer_types=[FULL, SLIDING], rope_theta=None,
                          rope_parameters={"rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0, "low_freq_factor": 1.0,
                                           "high_freq_factor": 4.0, "original_max_position_embeddings": 16})), 24),
    "ministral": (small(decoder("ministral", head_dim=6, sliding_window=7, layer_types=[FULL, SLIDING])), 24),
    "gpt_bigcode": (gpt_bigcode(vocab_size=59, n_embd=24, n_inner=28, n_layer=2, n_head=4, n_positions=64), 24),
    "gpt_neo": (gpt_neo(vocab_size=59, hidden_size=24, intermediate_size=28, num_layers=2, num_heads=4, max_position_embeddings=64,
                        attention_types=[[["global", "local"], 1]], window_size=7), 24),
    "mistral": (small(decoder("mistral", sliding_window=7, num_attention_heads=3, num_key_value_heads=1, head_dim=6)), 24),
    "qwen3": (small(decoder("qwen3", head_dim=10, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True)), 24),
    "qwen2_moe": (small(decoder("qwen2_moe", num_attention_heads=2, num_key_value_heads=1, num_experts=4, num_experts_per_tok=2,
                                moe_intermediate_size=20, shared_expert_intermediate_size=22, norm_topk_prob=True)), 24),
    "qwen3_moe": (small(decoder("qwen3_moe", head_dim=10, num_attention_heads=2, num_key_value_heads=1, num_experts=6,
                                num_experts_per_tok=2, moe_intermediate_size=20, norm_topk_prob=False, mlp_only_layers=[0])), 24),
    "olmoe": (small(decoder("olmoe", num_attention_heads=4, num_key_value_heads=2, num_experts=4, num_experts_per_tok=2,
                            intermediate_size=20)), 24),
    "deepseek_v2": (small(deepseek("deepseek_v2", num_attention_heads=4, q_lora_rank=10, kv_lora_rank=8, qk_nope_head_dim=6,
                                   qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=4, n_shared_experts=1,
                                   moe_intermediate_size=20)), 24),
    "deepseek_v2_lite": (small(deepseek("deepseek_v2", num_attention_heads=2, num_key_value_heads=2, q_lora_rank=None,
                                        kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, n_routed_experts=4,
                                        moe_intermediate_size=12, **rope("yarn", factor=4.0, original_max_position_embeddings=16))), 24),
    "deepseek_v3": (small(deepseek("deepseek_v3", num_attention_heads=4, q_lora_rank=10, kv_lora_rank=8, qk_nope_head_dim=6,
                                   qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=8, n_shared_experts=1, n_group=4,
                                   topk_group=2, moe_intermediate_size=12, norm_topk_prob=True)), 24),
    "gpt_oss": (small(decoder("gpt_oss", num_attention_heads=4, num_key_value_heads=2, head_dim=6, sliding_window=7,
                              num_local_experts=4, num_experts_per_tok=2, **rope(
                                  "yarn", factor=4.0, original_max_position_embeddings=16, truncate=False)), intermediate_size=20), 24),
    "gemma": (small(decoder("gemma", head_dim=8, num_attention_heads=4, num_key_value_heads=1, tie_word_embeddings=True)), 24),
    "gemma2": (small(decoder("gemma2", head_dim=6, num_attention_heads=4, sliding_window=5, query_pre_attn_scalar=10,
                             attn_logit_softcapping=2.0, final_logit_softcapping=3.0, tie_word_embeddings=True)), 24),
    "yarn": (small(decoder("llama", head_dim=12, num_attention_heads=2, num_key_value_heads=2, attention_bias=True, mlp_bias=True,
                           **rope("yarn", factor=4.0, original_max_position_embeddings=16))), 24),
    "linear_rope": (small(decoder("llama", head_dim=6, **rope("linear", factor=2.5))), 24),
    "gemma3_text": (small(decoder("gemma3_text", head_dim=6, sliding_window=5, layer_types=[SLIDING, FULL], query_pre_attn_scalar=10,
                                  rope_theta=1000.0, rope_local_base_freq=50.0, tie_word_embeddings=True,
                                  **rope("linear", factor=2.5))), 24),
    "gemma4_text": (small(gemma4(head_dim=6, global_head_dim=12, num_key_value_heads=4, num_global_key_value_heads=2, attention_k_eq_v=True,
                                 sliding_window=5, layer_types=[SLIDING, FULL], final_logit_softcapping=3.0, rope_parameters={
                                     "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1000.0},
                                     "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}})), 24),
    "smollm3": (small(decoder("smollm3", no_rope_layers=[0, 1], rope_theta=1000.0, tie_word_embeddings=True)), 24),
    "olmo": (small(decoder("olmo", rope_theta=50.0, attention_bias=True)), 24),
    "olmo2": (small(decoder("olmo2", attention_bias=True)), 24),
    "olmo3": (small(decoder("olmo3", sliding_window=7, layer_types=[SLIDING, FULL], rope_theta=500000.0, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=16))), 24),
    "llama4_text": (small(llama4(head_dim=6, num_attention_heads=4, num_key_value_heads=2, attention_chunk_size=7,
                                 no_rope_layers=[1, 0], interleave_moe_layer_step=2, num_local_experts=4, floor_scale=5,
                                 intermediate_size_mlp=28), intermediate_size=20), 24),
    "bloom": (bloom(vocab_size=59, hidden_size=24, n_layer=2, seq_length=64), 24),
    "mpt": (mpt(vocab_size=59, d_model=24, n_layers=2, n_heads=3, max_seq_len=64), 24),
    # A width at which no activation is so near 0 that its slope, 0 or 1, is another one in BF16.
    "opt": (opt(vocab_size=59, hidden_size=24, ffn_dim=32, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
                word_embed_proj_dim=24), 24),
    "phi3": (small(decoder("phi3", partial_rotary_factor=0.7, sliding_window=9)), 24),
    "longrope": (small(decoder("phi3", sliding_window=None, original_max_position_embeddings=16, **rope(
        "longrope", short_factor=[1.0, 1.0, 1.5], long_factor=[1.0, 1.5, 4.0]))), 24),
    "glm": (small(decoder("glm", head_dim=8, num_attention_heads=2, num_key_value_heads=1, attention_bias=True)), 24),
    "glm4": (small(decoder("glm4", head_dim=8, attention_bias=True)), 24),
    "granite": (small(decoder("granite", embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.6,
                              logits_scaling=1.5, tie_word_embeddings=True)), 24),
    # A low base: all pairs turn, so that no gradient of a key's bias is small.
    "seed_oss": (small(decoder("seed_oss", head_dim=8, num_attention_heads=3, num_key_value_heads=1, attention_out_bias=True,
                               attention_dropout=0.0, residual_dropout=0.0, rope_theta=50.0)), 24),
    "arcee": (small(decoder("arcee", mlp_bias=True)), 24),
    "ernie4_5": (small(decoder("ernie4_5", head_dim=8, num_attention_heads=2, num_key_value_heads=1, use_bias=True,
                               tie_word_embeddings=True)), 24),
    "starcoder2": (small(decoder("starcoder2", sliding_window=7, tie_word_embeddings=True)), 24),
    "stablelm": (small(decoder("stablelm", num_attention_heads=3, num_key_value_heads=3, use_qkv_bias=True)), 24),
    "exaone4": (small(decoder("exaone4", head_dim=6, sliding_window=7, layer_types=[SLIDING, FULL])), 24),
    "apertus": (small(decoder("apertus", **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                original_max_position_embeddings=16))), 24),
    "helium": (small(decoder("helium", head_dim=6, mlp_bias=True)), 24),
    "hunyuan_v1_dense": (small(decoder("hunyuan_v1_dense", head_dim=6, **rope(
        "dynamic", alpha=20.0, factor=1.0))), 24),
    "ministral3": (small(decoder("ministral3", head_dim=8, num_attention_heads=2, num_key_value_heads=2, sliding_window=13,
                                 rope_parameters={**MINISTRAL, "original_max_position_embeddings": 8,
                                                  "llama_4_scaling_beta": 0.5})), 24),
    "nemotron": (small(decoder("nemotron", num_attention_heads=2, num_key_value_heads=2, mlp_bias=True)), 24),
    "vaultgemma": (small(decoder("vaultgemma", head_dim=6, sliding_window=5, query_pre_attn_scalar=10, attn_logit_softcapping=2.0,
                                 final_logit_softcapping=3.0, tie_word_embeddings=True)), 24),
    "gemma3": (with_images("gemma3", small(decoder("gemma3_text", head_dim=6, sliding_window=5, layer_types=[SLIDING, FULL],
                                                   query_pre_attn_scalar=10, rope_theta=1000.0, rope_local_base_freq=50.0,
                                                   tie_word_embeddings=True)),
                           {"model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
                            "num_attention_heads": 1, "image_size": 8, "patch_size": 4},
                           image_token_index=58, boi_token_index=56, eoi_token_index=57, mm_tokens_per_image=1), 24),
    "qwen2_vl": (with_images("qwen2_vl", small(decoder("qwen2_vl_text", num_attention_heads=2, num_key_value_heads=1, **rope(
        "mrope", mrope_section=[2, 2, 2]))),
                             {"model_type": "qwen2_vl_vision", "depth": 1, "embed_dim": 8, "hidden_size": 24, "num_heads": 1,
                              "mlp_ratio": 1, "patch_size": 2, "spatial_merge_size": 2, "temporal_patch_size": 2},
                             image_token_id=58, video_token_id=57, vision_start_token_id=56, vision_end_token_id=55), 24),
    "stablelm_parallel": (small(decoder("stablelm", num_attention_heads=4, num_key_value_heads=2, use_parallel_residual=True,
                                        partial_rotary_factor=0.7, qk_layernorm=True)), 24),
    "gpt_neox": (small(decoder("gpt_neox", num_attention_heads=4, num_key_value_heads=None, rotary_pct=0.7, rotary_emb_base=50,
                               rope_theta=None)), 24),
    "phi": (small(decoder("phi", num_attention_heads=4, num_key_value_heads=2, partial_rotary_factor=0.7, rope_theta=50.0)), 24),
    "cohere": (small(decoder("cohere", num_attention_heads=4, num_key_value_heads=2, logit_scale=0.7, use_qk_norm=True)), 24),
    "cohere2": (small(decoder("cohere2", num_attention_heads=4, sliding_window=7, layer_types=[SLIDING, FULL], logit_scale=0.7,
                              tie_word_embeddings=True)), 24),
    "falcon": ({**falcon(vocab_size=59, hidden_size=24, ffn_hidden_size=28, num_hidden_layers=2, max_position_embeddings=64,
                         new_decoder_architecture=True, num_kv_heads=2, bias=True, rope_theta=50.0)}, 24),
    "falcon_alibi": ({**falcon(vocab_size=59, hidden_size=24, ffn_hidden_size=28, num_hidden_layers=2, alibi=True, multi_query=False,
                               parallel_attn=False, bias=True)}, 24),
    "gptj": (gptj(vocab_size=59, n_embd=24, n_inner=28, n_layer=2, n_head=2, n_positions=64, rotary_dim=8), 24),
    "moonlight": (small(deepseek("deepseek_v3", rms_norm_eps=0.05, num_attention_heads=4, q_lora_rank=None, kv_lora_rank=8,
                                 qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=4, n_group=1, topk_group=1,
                                 moe_intermediate_size=12, norm_topk_prob=True, num_nextn_predict_layers=0)), 24),
    "glm4_moe": (small(shared_experts("glm4_moe", head_dim=8, attention_bias=True, use_qk_norm=True, n_routed_experts=4,
                                      moe_intermediate_size=12, rope_theta=50.0, num_nextn_predict_layers=0)), 24),
    "glm4_moe_lite": (small(deepseek("glm4_moe_lite", rms_norm_eps=0.05, num_attention_heads=4, q_lora_rank=10, kv_lora_rank=8,
                                     qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=4, n_shared_experts=1,
                                     n_group=1, topk_group=1, moe_intermediate_size=12, norm_topk_prob=True,
                                     num_nextn_predict_layers=0)), 24),
    "dots1": (small(shared_experts("dots1", n_routed_experts=4, n_shared_experts=2, moe_intermediate_size=12, sliding_window=7,
                                   layer_types=[SLIDING, FULL])), 24),
    "ernie4_5_moe": (small(decoder("ernie4_5_moe", moe_num_experts=4, moe_k=2, moe_intermediate_size=12, moe_num_shared_experts=2,
                                   tie_word_embeddings=True)), 24),
    "minimax_m2": (small(decoder("minimax_m2", head_dim=8, rotary_dim=4, num_local_experts=4, num_experts_per_tok=2),
                         intermediate_size=20), 24),
    "granitemoe": (small(decoder("granitemoe", embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.6,
                                 logits_scaling=1.5, num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=True),
                         intermediate_size=20), 24),
    "granitemoeshared": (small(decoder("granitemoeshared", embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.6,
                                       logits_scaling=1.5, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=22,
                                       tie_word_embeddings=True), intermediate_size=20), 24),
    "solar_open": (small(shared_experts("solar_open", head_dim=8, n_routed_experts=4, moe_intermediate_size=12, rope_theta=50.0,
                                        first_k_dense_replace=0)), 24),
    "hunyuan_v1_moe": (small(decoder("hunyuan_v1_moe", head_dim=6, num_experts=4, moe_topk=2, tie_word_embeddings=True, **rope(
        "dynamic", alpha=50.0, factor=1.0)), intermediate_size=20), 24),
    "phimoe": (small(decoder("phimoe", num_attention_heads=4, num_key_value_heads=2, attention_bias=True, lm_head_bias=True,
                             num_local_experts=4, router_jitter_noise=0.4, **rope(
        "longrope", original_max_position_embeddings=64, short_factor=[1.0, 1.5, 2.0], long_factor=[1.0, 2.0, 4.0],
        short_mscale=1.2, long_mscale=1.2)), intermediate_size=20), 24),
}
