// Sharding over data-parallel ranks: strategies, their presets and formats.

#include "config/nearest_valid.h"
#include "precision/recipe.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"
#include "run/sharding_presets.h"

namespace viaduct {
namespace {

std::string strategy_setting(const DdpConfig& ddp) {
  return fmt::format("ddp.data_parallel_sharding_strategy: {}", choice_name(ddp.strategy()));
}

void validate_strategy(const RunConfig& config, Problems& problems) {
  const DdpConfig& ddp = config.ddp;
  const std::string name = strategy_setting(ddp);
  if ((ddp.strategy() == ShardingStrategy::no_shard) == ddp.use_distributed_optimizer) {
    problems.add("{} excludes use_distributed_optimizer = {}", name, ddp.use_distributed_optimizer);
  }
  const bool megatron = ddp.fsdp == FsdpKind::megatron;
  if (ddp.fsdp && !(megatron ? ddp.use_megatron_fsdp : ddp.use_torch_fsdp2)) {
    problems.add("dist.fsdp: {}, but {} = false is also given: give only one of them",
                 choice_name(*ddp.fsdp), megatron ? "use_megatron_fsdp" : "use_torch_fsdp2");
  }
  if (ddp.use_megatron_fsdp && ddp.use_torch_fsdp2) {
    problems.add(
        "dist.use_megatron_fsdp: true, but use_torch_fsdp2 = true is also given: give only one of "
        "them");
  }
  if (ddp.use_torch_fsdp2 && !ddp.shards_weights()) {
    problems.add(
        "dist.use_torch_fsdp2: true means ddp.data_parallel_sharding_strategy = "
        "optim_grads_params, found {}",
        choice_name(ddp.strategy()));
  }
  if (ddp.shards_weights() && ddp.align_param_gather.value_or(false)) {
    problems.add(
        "{} excludes align_param_gather = true: weights are gathered for each micro-batch, not "
        "once a step",
        name);
  }
  if (ddp.shards_weights() && ddp.overlap_param_gather_with_optimizer_step) {
    problems.add(
        "{} excludes optimizer.overlap_param_gather_with_optimizer_step = true: no weights are "
        "whole after an update",
        name);
  }
}

void validate_gradient_shards(const RunConfig& config, Problems& problems) {
  const DdpConfig& ddp = config.ddp;
  if (!ddp.shards_gradients()) return;
  const std::string name = strategy_setting(ddp);
  if (config.context_parallel.hybrid_context_parallel) {
    problems.add(
        "{} excludes model.hybrid_context_parallel = true: ranks have different numbers of "
        "micro-batches, but all must reduce the gradients of each together",
        name);
  }
  if (ddp.reduce_scatter_with_fp32_accumulation)
    problems.add("{} with reduce_scatter_with_fp32_accumulation = true is not implemented", name);
  if (!ddp.fp32_accumulation_patterns.values().empty()) {
    problems.add(
        "{} excludes param_name_patterns_for_fp32_local_accumulation: no rank adds up its own "
        "micro-batches",
        name);
  }
  if (ddp.check_for_large_grads) {
    problems.add(
        "{} excludes check_for_large_grads = true: no rank has the gradients of its own "
        "micro-batches of a step",
        name);
  }
}

void validate_weight_shards(const RunConfig& config, Problems& problems) {
  const DdpConfig& ddp = config.ddp;
  const int64_t ranks = document_ranks(config);
  if (!ddp.tensor_parallel_num_weight_shards || ranks == 0) return;  // 0: reported elsewhere
  const int64_t shards = *ddp.tensor_parallel_num_weight_shards;
  const int64_t tp = config.parallel.tensor_model_parallel_size;
  const std::string name = fmt::format("model.tensor_parallel_num_weight_shards: {}", shards);
  const int64_t over_data = weight_shard_ranks(config);
  if (over_data == 0) {
    const auto fits = [&](int64_t n) { return n % tp == 0 && ranks % (n / tp) == 0; };
    problems.add(
        "{} is not tensor_model_parallel_size = {} times a divisor of data-parallel ranks · "
        "context_parallel_size = {} · {} = {}; nearest: {}",
        name, tp, data_parallel_size(config), config.parallel.context_parallel_size, ranks,
        nearest_valid(shards, fits, tp * ranks));
    return;
  }
  if (over_data > 1 && !ddp.shards_weights()) {
    problems.add(
        "{}, over tensor_model_parallel_size = {}, needs ddp.data_parallel_sharding_strategy = "
        "optim_grads_params, found {}",
        name, tp, choice_name(ddp.strategy()));
    return;
  }
  const int64_t instances = ranks / over_data;
  if (ddp.shards_weights() && ddp.num_distributed_optimizer_instances != instances) {
    problems.add(
        "{}, over tensor_model_parallel_size = {} and {} data ranks, needs "
        "ddp.num_distributed_optimizer_instances = {}, found {}",
        name, tp, ranks, instances, ddp.num_distributed_optimizer_instances);
  }
}

void validate_formats(const RunConfig& config, Problems& problems) {
  const DdpConfig& ddp = config.ddp;
  const DType weight = precision_recipe(config.mixed_precision.recipe).weight;
  const auto wide = weight == DType::f64 ? NumberFormat::fp64 : NumberFormat::fp32;
  const auto narrow = weight == DType::bf16  ? NumberFormat::bf16
                      : weight == DType::f16 ? NumberFormat::fp16
                                             : wide;
  const auto check = [&](const char* field, std::optional<NumberFormat> format) {
    if (!format) return false;
    if (!ddp.shards_gradients()) {
      problems.add(
          "ddp.{}: {} needs data_parallel_sharding_strategy = optim_grads or optim_grads_params, "
          "found {}",
          field, choice_name(*format), choice_name(ddp.strategy()));
    }
    return true;
  };
  const auto check_gradients = [&](const char* field, std::optional<NumberFormat> format) {
    if (!check(field, format) || *format == wide || *format == narrow) return;
    const std::string either = fmt::format("{} or {}", choice_name(narrow), choice_name(wide));
    problems.add("ddp.{}: {}, but gradients of mixed_precision.recipe = {} are {}", field,
                 choice_name(*format), choice_name(config.mixed_precision.recipe),
                 wide == narrow ? choice_name(wide) : either);
  };
  check_gradients("megatron_fsdp_main_grads_dtype", ddp.megatron_fsdp_main_grads_dtype);
  check_gradients("megatron_fsdp_grad_comm_dtype", ddp.megatron_fsdp_grad_comm_dtype);
  if (const auto& format = ddp.megatron_fsdp_main_grads_dtype;
      format && (*format == NumberFormat::fp32) != ddp.grad_reduce_in_fp32) {
    problems.add("ddp.megatron_fsdp_main_grads_dtype: {} means grad_reduce_in_fp32 = {}, found {}",
                 choice_name(*format), *format == NumberFormat::fp32, ddp.grad_reduce_in_fp32);
  }
  if (!check("megatron_fsdp_main_params_dtype", ddp.megatron_fsdp_main_params_dtype)) return;
  if (const NumberFormat format = config.optimizer_state.main_params_dtype;
      format != *ddp.megatron_fsdp_main_params_dtype) {
    problems.add("ddp.megatron_fsdp_main_params_dtype: {}, but optimizer.main_params_dtype = {}",
                 choice_name(*ddp.megatron_fsdp_main_params_dtype), choice_name(format));
  }
}

void validate_shared_state(const RunConfig& config, Problems& problems) {
  const DdpConfig& ddp = config.ddp;
  if (!ddp.shares_state()) return;
  if (!ddp.use_distributed_optimizer) {
    problems.add(
        "ddp.outer_dp_sharding_strategy: optim needs use_distributed_optimizer, which is false");
  } else if (ddp.num_distributed_optimizer_instances == 1) {
    problems.add(
        "ddp.outer_dp_sharding_strategy: optim needs num_distributed_optimizer_instances of at "
        "least 2, found 1");
  }
}

void refuse_sharding(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  validate_strategy(config, problems);
  validate_gradient_shards(config, problems);
  validate_weight_shards(config, problems);
  validate_formats(config, problems);
  validate_shared_state(config, problems);
}

}  // namespace

Topic sharding_topic() {
  std::vector<NoEffectRule> idle{
      {{"ddp.data_parallel_sharding_strategy", "dist.fsdp", "dist.use_megatron_fsdp",
        "dist.use_torch_fsdp2"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return one_document_rank(c, "one shard is all");
       }},
      {{"model.tensor_parallel_num_weight_shards"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(
             c.ddp.tensor_parallel_num_weight_shards == c.parallel.tensor_model_parallel_size,
             "it is model.tensor_model_parallel_size");
       }},
      {{"ddp.megatron_fsdp_grad_comm_dtype"},
       [](const RunConfig& c, const ConfigOutcome&) {
         if (document_ranks(c) == c.ddp.num_distributed_optimizer_instances)
           return std::string("an optimizer instance has one rank: nothing is reduce-scattered");
         const bool fp32 = c.ddp.megatron_fsdp_grad_comm_dtype == NumberFormat::fp32;
         return reason_if(fp32 == c.ddp.grad_reduce_in_fp32, "main gradients have this format");
       }},
      {{"ddp.suggested_communication_unit_size", "ddp.fsdp_double_buffer"},
       [](const RunConfig& c, const ConfigOutcome&) {
         const std::string one =
             c.offload.moves_weights() ? "" : one_document_rank(c, "one shard is all");
         return !one.empty()
                    ? one
                    : reason_if(!c.ddp.shards_weights(),
                                stated("ddp.data_parallel_sharding_strategy", c.ddp.strategy()) +
                                    ": no layers are gathered for their use");
       }},
  };
  return {refuse_sharding, std::move(idle)};
}

}  // namespace viaduct
