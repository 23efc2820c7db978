#include "config/foreign_words.h"

#include <algorithm>
#include <cctype>

namespace viaduct {
namespace {

constexpr std::string_view kBatch =
    "global_batch_size = micro_batch_size · data-parallel ranks · gradient_accumulation_steps";
constexpr std::string_view kEpochs =
    "a run has a length in steps: epochs · rows of the data / global_batch_size; the line `data:` "
    "at the start of a run has both numbers";
constexpr std::string_view kReplicas =
    "data-parallel ranks are dist.ranks / (tensor · context · pipeline ranks)";
constexpr std::string_view kSteps = "a number of steps, not of epochs";
constexpr std::string_view kRecipe = "bf16_mixed, fp16_mixed or fp32";

constexpr std::string_view kChat =
    "prefixes of data sets that `viaduct data chat` made, whose --template and --prompt-template "
    "say how";
constexpr std::string_view kNewTokens =
    "`viaduct convert --add-tokens` gives model and tokenizer further tokens; vocab_size alone "
    "further rows";
constexpr std::string_view kTrainOn = "`viaduct data chat --train-on` chooses what is learned";
constexpr std::string_view kSpans =
    "the mean of spans, whose lengths are drawn as in the code of T5's paper";
constexpr std::string_view kLonger = "`viaduct data chat --max-length` treats longer conversations";

constexpr ForeignWord kWords[] = {
    // transformers.TrainingArguments
    {"learning_rate", "optimizer.lr", ""},
    {"per_device_train_batch_size", "train.micro_batch_size", "rows of a rank at a time"},
    {"per_device_eval_batch_size", "train.micro_batch_size", "evaluation has the same rows"},
    {"eval_batch_size", "train.micro_batch_size", "evaluation has the same rows"},
    {"per_gpu_train_batch_size", "train.micro_batch_size", "rows of a rank at a time"},
    {"train_micro_batch_size_per_gpu", "train.micro_batch_size", "rows of a rank at a time"},
    {"train_batch_size", "train.global_batch_size", kBatch},
    {"batch_size", "train.global_batch_size", kBatch},
    {"gradient_accumulation_steps", "train.global_batch_size", kBatch},
    {"gradient_accumulation", "train.global_batch_size", kBatch},
    {"auto_find_batch_size", "train.micro_batch_size", "auto: the most rows that fit in memory"},
    {"warmup_steps", "scheduler.lr_warmup_iters", ""},
    {"num_warmup_steps", "scheduler.lr_warmup_iters", ""},
    {"lr_warmup_steps", "scheduler.lr_warmup_iters", ""},
    {"warmup_ratio", "scheduler.lr_warmup_fraction", ""},
    {"max_steps", "train.train_iters", ""},
    {"num_train_epochs", "train.train_iters", kEpochs},
    {"num_epochs", "train.train_iters", kEpochs},
    {"epochs", "train.train_iters", kEpochs},
    {"lr_scheduler_type", "scheduler.lr_decay_style", ""},
    {"lr_scheduler", "scheduler.lr_decay_style", ""},
    {"lr_min", "optimizer.min_lr", ""},
    {"cosine_min_lr", "optimizer.min_lr", ""},
    {"betas", "optimizer.adam_beta1", "and optimizer.adam_beta2"},
    {"max_grad_norm", "optimizer.clip_grad", ""},
    {"gradient_clipping", "optimizer.clip_grad", ""},
    {"adam_epsilon", "optimizer.adam_eps", ""},
    {"optim", "optimizer.optimizer", ""},
    {"output_dir", "checkpoint.save", ""},
    {"overwrite_output_dir", "checkpoint.save", "a folder that holds a run is resumed"},
    {"save_strategy", "checkpoint.save_interval", kSteps},
    {"save_steps", "checkpoint.save_interval", ""},
    {"save_total_limit", "checkpoint.most_recent_k", ""},
    {"resume_from_checkpoint", "checkpoint.load",
     "a run whose checkpoint.save has checkpoints resumes from the newest one"},
    {"eval_steps", "validation.eval_interval", ""},
    {"eval_strategy", "validation.eval_interval", kSteps},
    {"evaluation_strategy", "validation.eval_interval", kSteps},
    {"do_eval", "validation.eval_iters", "0: no evaluation"},
    {"max_eval_samples", "validation.eval_iters", "in global batches"},
    {"logging_steps", "logger.log_interval", ""},
    {"logging_strategy", "logger.log_interval", kSteps},
    {"report_to", "logger.tensorboard_dir", "TensorBoard; metrics.jsonl is in checkpoint.save"},
    {"logging_dir", "logger.tensorboard_dir", ""},
    {"data_seed", "dataset.random_seed", ""},
    {"bf16", "mixed_precision.recipe", kRecipe},
    {"fp16", "mixed_precision.recipe", kRecipe},
    {"torch_dtype", "mixed_precision.recipe", kRecipe},
    {"dtype", "mixed_precision.recipe", kRecipe},
    {"gradient_checkpointing", "model.recompute_granularity", "full or selective"},
    {"attn_implementation", "model.attention_backend", "flash, or unfused for eager"},
    {"flash_attn", "model.attention_backend", "flash"},
    {"use_flash_attention_2", "model.attention_backend", "flash"},
    {"flash_attention", "model.attention_backend", "flash"},
    {"no_cuda", "dist.device", "cpu"},
    {"use_cpu", "dist.device", "cpu"},
    {"tensor_parallel_size", "model.tensor_model_parallel_size", ""},
    {"pipeline_parallel_size", "model.pipeline_model_parallel_size", ""},
    {"expert_parallel_size", "model.expert_model_parallel_size", ""},
    {"data_parallel_size", "dist.ranks", kReplicas},
    {"dp_size", "dist.ranks", kReplicas},
    {"tp_size", "model.tensor_model_parallel_size", ""},
    {"pp_size", "model.pipeline_model_parallel_size", ""},
    {"cp_size", "model.context_parallel_size", ""},
    {"ep_size", "model.expert_model_parallel_size", ""},
    {"sp_size", "model.context_parallel_size", "rows are cut along their tokens"},
    {"context_parallel_degree", "model.context_parallel_size", ""},
    {"zero_stage", "ddp.data_parallel_sharding_strategy",
     "1: optim; 2: optim_grads; 3: optim_grads_params"},
    {"dataloader_num_workers", "dataset.num_workers", ""},
    {"max_seq_length", "model.seq_length", ""},
    {"max_length", "model.seq_length", ""},
    {"block_size", "model.seq_length", ""},
    {"context_length", "model.seq_length", ""},
    {"model_name_or_path", "checkpoint.pretrained_checkpoint", "a folder"},
    {"tokenizer_name", "tokenizer.tokenizer_model", "a folder"},
    {"train_file", "dataset.blend", "prefixes of data sets that `viaduct data tokenize` made"},
    {"validation_file", "dataset.blend_per_split", "a blend for each split"},
    {"test_size", "dataset.split", "weights of train, validation and test data"},
    {"dataset_name", "dataset.blend", "prefixes of data sets that `viaduct data tokenize` made"},
    {"nproc_per_node", "dist.ranks", "of all machines"},
    // axolotl, LLaMA-Factory, Megatron-Bridge
    {"base_model", "checkpoint.pretrained_checkpoint",
     "a folder, a .gguf file, or a name of the Hub in the local cache"},
    {"resize_vocab", "model.vocab_size", kNewTokens},
    {"tokens", "model.vocab_size", kNewTokens},
    {"add_tokens", "model.vocab_size", kNewTokens},
    {"add_special_tokens", "model.vocab_size", kNewTokens},
    {"new_special_tokens_config", "model.vocab_size", kNewTokens},
    {"resize_token_embeddings_to_32x", "model.make_vocab_size_divisible_by", "32"},
    {"datasets", "dataset.blend", kChat},
    {"chat", "dataset.blend", kChat},
    {"chat_template", "dataset.blend", kChat},
    {"use_hf_tokenizer_chat_template", "dataset.blend", kChat},
    {"template", "dataset.blend", kChat},
    {"prompt_template", "dataset.blend", kChat},
    {"label_key", "dataset.blend", kChat},
    {"roles_to_train", "dataset.answer_only_loss", kTrainOn},
    {"train_on_eos", "dataset.answer_only_loss", kTrainOn},
    {"mask_history", "dataset.answer_only_loss", kTrainOn},
    {"message_field_training", "dataset.answer_only_loss",
     "`viaduct data chat` reads \"train\": false of a message"},
    {"train_on_inputs", "dataset.answer_only_loss", "with the opposite value"},
    {"train_on_prompt", "dataset.answer_only_loss", "with the opposite value"},
    {"sample_packing", "dataset.packed_sequence_size", "the tokens of a row"},
    {"neat_packing", "dataset.packed_sequence_size", "the tokens of a row"},
    {"packing", "dataset.packed_sequence_size", "the tokens of a row"},
    {"sequence_len", "model.seq_length", ""},
    {"cutoff_len", "model.seq_length", kLonger},
    {"val_set_size", "dataset.split", "weights of train, validation and test data"},
    {"load_best_model_at_end", "checkpoint.keep_best", ""},
    {"metric_for_best_model", "checkpoint.keep_best", ""},
    {"deepspeed", "ddp.use_distributed_optimizer", "ZeRO 1; ZeRO 3: dist.use_megatron_fsdp"},
    {"fsdp_config", "dist.use_megatron_fsdp", ""},
    {"finetuning_type", "peft.scheme", "null: all weights"},
    {"load_in_4bit", "peft.base_format", "nf4"},
    {"load_in_8bit", "peft.base_format", "fp8"},
    {"quantization_bit", "peft.base_format", "4: nf4"},
    // peft.LoraConfig
    {"lora_r", "peft.dim", ""},
    {"lora_target_modules", "peft.target_modules", ""},
    {"use_dora", "peft.scheme", "dora"},
    {"peft_use_dora", "peft.scheme", "dora"},
    {"lora_modules_to_save", "peft.train", ""},
    {"additional_target", "peft.train", ""},
    // the same of axolotl and LLaMA-Factory
    {"lora_rank", "peft.dim", ""},
    {"lora_target", "peft.target_modules", ""},
    {"lora_target_linear", "peft.target_modules", "all-linear, which is the default"},
    {"peft_use_rslora", "peft.rslora", ""},
    {"loraplus_lr_ratio", "peft.lora_plus_ratio", ""},
    {"lora_model_dir", "peft.adapter", "a folder"},
    {"adapter_name_or_path", "peft.adapter", "a folder"},
    {"layers_to_transform", "peft.target_modules", "with the layers' numbers: layers.0.*"},
    {"init_lora_weights", "peft.lora_A_init_method", "B begins with zeros"},
    // the T5 data of Megatron and NeMo
    {"sequence_length_encoder", "model.encoder_seq_length", ""},
    {"sequence_length_decoder", "model.seq_length", ""},
    {"seq_length_dec", "model.seq_length", ""},
    {"masking_max_ngram", "dataset.mean_noise_span_length", kSpans},
    {"max_ngram_size", "dataset.mean_noise_span_length", kSpans},
    {"masking_use_geometric_distribution", "dataset.mean_noise_span_length", kSpans},
    // config.json
    {"model_type", "model.family", ""},
    {"num_hidden_layers", "model.num_layers", ""},
    {"n_layer", "model.num_layers", ""},
    {"n_layers", "model.num_layers", ""},
    {"n_heads", "model.num_attention_heads", ""},
    {"d_ff", "model.ffn_hidden_size", ""},
    {"d_kv", "model.kv_channels", ""},
    {"n_embd", "model.hidden_size", ""},
    {"n_head", "model.num_attention_heads", ""},
    {"n_positions", "model.max_position_embeddings", ""},
    {"n_ctx", "model.max_position_embeddings", ""},
    {"n_inner", "model.ffn_hidden_size", ""},
    {"ffn_dim", "model.ffn_hidden_size", ""},
    {"d_model", "model.hidden_size", ""},
    {"num_heads", "model.num_attention_heads", ""},
    {"intermediate_size", "model.ffn_hidden_size", ""},
    {"num_key_value_heads", "model.num_query_groups", ""},
    {"head_dim", "model.kv_channels", ""},
    {"hidden_act", "model.activation_func", ""},
    {"hidden_activation", "model.activation_func", ""},
    {"hidden_dim", "model.hidden_size", ""},
    {"activation_function", "model.activation_func", ""},
    {"rms_norm_eps", "model.layernorm_epsilon", ""},
    {"layer_norm_eps", "model.layernorm_epsilon", ""},
    {"layer_norm_epsilon", "model.layernorm_epsilon", ""},
    {"hidden_dropout_prob", "model.hidden_dropout", ""},
    {"resid_pdrop", "model.hidden_dropout", ""},
    {"embd_pdrop", "model.embedding_dropout", ""},
    {"attention_probs_dropout_prob", "model.attention_dropout", ""},
    {"attn_pdrop", "model.attention_dropout", ""},
    {"rope_theta", "model.rotary_base", ""},
    {"partial_rotary_factor", "model.rotary_percent", ""},
    {"rotary_pct", "model.rotary_percent", ""},
    {"query_pre_attn_scalar", "model.softmax_scale", "1 / its square root"},
    {"mlp_bias", "model.add_mlp_bias", ""},
    {"sliding_window", "model.window_size", ""},
    {"attention_bias", "model.add_qkv_bias", ""},
    {"use_parallel_residual", "model.parallel_block", ""},
    {"parallel_attn", "model.parallel_block", ""},
    {"use_qk_norm", "model.qk_layernorm", ""},
    {"initializer_range", "model.init_method_std", ""},
    {"init_std", "model.init_method_std", ""},
    {"qk_nope_head_dim", "model.qk_head_dim", ""},
    {"qk_rope_head_dim", "model.qk_pos_emb_head_dim", ""},
    {"num_nextn_predict_layers", "model.mtp_num_layers", ""},
    {"num_experts", "model.num_moe_experts", ""},
    {"num_local_experts", "model.num_moe_experts", ""},
    {"num_experts_per_tok", "model.moe_router_topk", ""},
    {"moe_intermediate_size", "model.moe_ffn_hidden_size", ""},
    {"router_aux_loss_coef", "model.moe_aux_loss_coeff", ""},
    {"aux_loss_alpha", "model.moe_aux_loss_coeff", ""},
    {"n_routed_experts", "model.num_moe_experts", ""},
    {"n_shared_experts", "model.moe_shared_expert_intermediate_size",
     "their number · model.moe_ffn_hidden_size"},
    {"shared_expert_intermediate_size", "model.moe_shared_expert_intermediate_size", ""},
    {"first_k_dense_replace", "model.moe_layer_freq", "a list with 0 for each dense layer"},
    {"decoder_sparse_step", "model.moe_layer_freq", "or a list"},
    {"routed_scaling_factor", "model.moe_router_topk_scaling_factor", ""},
    {"scoring_func", "model.moe_router_score_function", ""},
    {"norm_topk_prob", "model.moe_router_norm_topk_prob", ""},
    {"n_group", "model.moe_router_num_groups", ""},
    {"topk_group", "model.moe_router_group_topk", ""},
};

}  // namespace

std::span<const ForeignWord> foreign_words() {
  return kWords;
}

std::string search_form(std::string_view name) {
  std::string form(name);
  for (char& c : form) {
    c = c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return form.substr(std::min(form.find_first_not_of('_'), form.size()));
}

const ForeignWord* find_foreign_word(std::string_view name) {
  const size_t dot = name.rfind('.');
  const std::string word = search_form(dot == name.npos ? name : name.substr(dot + 1));
  const auto* found = std::find_if(std::begin(kWords), std::end(kWords),
                                   [&](const ForeignWord& known) { return known.word == word; });
  return found == std::end(kWords) ? nullptr : found;
}

}  // namespace viaduct
