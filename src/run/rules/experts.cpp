// Experts: their family, their sizes over ranks, and how tokens are balanced.

#include <algorithm>

#include "config/nearest_valid.h"
#include "model/family.h"
#include "model/offload_config.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// Families whose checkpoints define names for experts.
std::string families_with_experts() {
  std::string list;
  for (const ModelFamily& family : model_families()) {
    if (!family.names.router.empty()) list += (list.empty() ? "" : ", ") + family.model_type;
  }
  return list;
}

void validate_family(const RunConfig& config, Problems& problems) {
  if (config.model.family.is_auto()) return;
  for (const ModelFamily& family : model_families()) {
    if (family.model_type != config.model.family.value() || !family.names.router.empty()) continue;
    problems.add("model.num_moe_experts: family {} has no experts; families with experts: {}",
                 family.model_type, families_with_experts());
  }
}

/// Rows of experts that are padded for products of the recipe.
void validate_padding(const RunConfig& config, Problems& problems) {
  const MoeFields& moe = config.model.moe;
  if (!moe.moe_router_padding_for_quantization) return;
  constexpr std::string_view kField = "model.moe_router_padding_for_quantization: true";
  const PrecisionConfig& given = config.mixed_precision;
  if (!given.fp8 && !given.fp4 && !precision_recipe(given).products.any()) {
    problems.add(
        "{} needs a recipe with FP8 or FP4 products, whose multiple of rows it pads to; found "
        "mixed_precision.recipe = {}",
        kField, choice_name(given.recipe));
  }
  if (moe.moe_token_dispatcher_type == TokenDispatcher::allgather) {
    problems.add(
        "{} with moe_token_dispatcher_type = allgather: tokens are gathered whole, so no rank "
        "sends rows that it could pad; nearest: alltoall",
        kField);
  }
}

/// Where tokens are balanced together without a loss, all tokens of a rank count.
void validate_balance(const RunConfig& config, Problems& problems) {
  const MoeFields& moe = config.model.moe;
  const bool sinkhorn = moe.balances_by(BalanceKind::sinkhorn);
  if (!sinkhorn && !moe.balances_by(BalanceKind::quantile_balancing)) return;
  const std::string_view type =
      choice_name(sinkhorn ? BalanceKind::sinkhorn : BalanceKind::quantile_balancing);
  const int cp = config.parallel.context_parallel_size;
  const std::string cause = cause_of_documents(config.dataset);
  if (config.dataset.packing.conversations) {
    problems.add(
        "model.moe_router_load_balancing_type: {} is not implemented with rows of conversations "
        "({}), whose padding it would balance with the tokens; nearest: aux_loss",
        type, cause);
  } else if (!cause.empty() && cp > 1) {
    problems.add(
        "model.moe_router_load_balancing_type: {} is not implemented with documents ({}) over "
        "context_parallel_size = {} ranks, whose padding it would balance with the tokens; "
        "nearest: aux_loss",
        type, cause, cp);
  }
  if (config.context_parallel.hybrid_context_parallel) {
    problems.add(
        "model.moe_router_load_balancing_type: {} is not implemented with "
        "hybrid_context_parallel = true, whose ranks share documents of other micro-batches; "
        "nearest: aux_loss",
        type);
  }
}

/// Dimensions that are cut over ranks are divisible by their number.
void validate_cuts(const RunConfig& config, Problems& problems) {
  const ParallelConfig& sizes = config.parallel;
  const MoeFields& moe = config.model.moe;
  const int64_t experts = moe.experts(), ep = sizes.expert_model_parallel_size;
  if (experts % ep != 0) {
    problems.add(
        "model.expert_model_parallel_size: {} does not divide num_moe_experts = {}; nearest: {}",
        ep, experts, nearest_divisor(ep, experts));
  }
  const auto width = [&](const Auto<std::optional<int64_t>>& field) {
    return field.is_auto() ? std::optional<int64_t>() : field.value();
  };
  auto features = width(moe.moe_ffn_hidden_size);
  const char* name = "moe_ffn_hidden_size";
  if (!features && !config.model.ffn_hidden_size.is_auto()) {
    features = config.model.ffn_hidden_size.value();
    name = "ffn_hidden_size";
  }
  const int64_t etp = sizes.expert_tensor(), tp = sizes.tensor_model_parallel_size;
  if (features && *features % etp != 0) {
    problems.add("model.expert_tensor_parallel_size: {} does not divide {} = {}; nearest: {}", etp,
                 name, *features, nearest_divisor(etp, *features));
  }
  const auto& biases = config.model.add_mlp_bias;
  if (etp > 1 && !biases.is_auto() && biases.value()) {
    problems.add(
        "model.expert_tensor_parallel_size: {} with add_mlp_bias = true: the biases of "
        "num_moe_experts "
        "= {} experts are added where an expert is whole; nearest: 1",
        etp, experts);
  }
  const auto shared = width(moe.moe_shared_expert_intermediate_size);
  if (shared && *shared % tp != 0) {
    problems.add(
        "model.moe_shared_expert_intermediate_size: {} is not divisible by "
        "tensor_model_parallel_size = {}; nearest: {}",
        *shared, tp, nearest_multiple(*shared, tp));
  }
  if (tp > 1 && !config.parallel.sequence_parallel.value_or(true)) {
    problems.add(
        "model.sequence_parallel: false with num_moe_experts = {} and tensor_model_parallel_size = "
        "{}: tensor ranks would route the same tokens; expected true",
        experts, tp);
  }
  if (!config.ddp.use_distributed_optimizer && (ep > 1 || etp != tp)) {
    problems.add(
        "ddp.use_distributed_optimizer: false is not implemented with "
        "expert_model_parallel_size = {} and expert_tensor_parallel_size = {} (tp = {}): experts "
        "have fewer copies than dense weights; expected true",
        ep, etp, tp);
  }
  // A bias that is set has no loads in place of a gradient.
  const Auto<bool>& bias = moe.moe_router_enable_expert_bias;
  const bool loads =
      !bias.is_auto() && bias.value() && !moe.balances_by(BalanceKind::quantile_balancing);
  if (loads && config.optimizer_state.main_grads_dtype != NumberFormat::fp32) {
    problems.add(
        "optimizer.main_grads_dtype: {} with moe_router_enable_expert_bias = true: the loads of "
        "experts are summed beside the gradients and need fp32",
        choice_name(config.optimizer_state.main_grads_dtype));
  }
  if (loads && config.ddp.check_for_large_grads) {
    problems.add(
        "ddp.check_for_large_grads: true is not implemented with moe_router_enable_expert_bias = "
        "true: the loads of experts are in the buckets whose norms it compares");
  }
  for (const OffloadModule module : config.offload.offload_modules) {
    const auto units = offloaded_units(module);
    if (ep * etp == 1 || !config.offload.by_module() ||
        std::ranges::none_of(units, has_expert_rows))
      continue;
    problems.add(
        "model.offload_modules: {} is not implemented with expert_model_parallel_size · "
        "expert_tensor_parallel_size = {} · {}: the size of what experts keep depends on the data, "
        "but the second memory has slots of one size; nearest: mlp_norm",
        choice_name(module), ep, etp);
  }
  if (config.context_parallel.hybrid_context_parallel && ep * etp > 1) {
    problems.add(
        "model.hybrid_context_parallel: true is not implemented with expert_model_parallel_size · "
        "expert_tensor_parallel_size = {} · {}: ranks that exchange tokens would have other "
        "micro-batches",
        ep, etp);
  }
  if (config.context_parallel.hybrid_context_parallel &&
      moe.balances_by(BalanceKind::global_aux_loss)) {
    problems.add(
        "model.moe_router_load_balancing_type: global_aux_loss is not implemented with "
        "hybrid_context_parallel = true: ranks that count together would have other "
        "micro-batches; nearest: aux_loss");
  }
  validate_padding(config, problems);
  if (const auto& freq = moe.moe_layer_freq;
      !freq.is_auto() && !freq.value().is_list() && freq.value().at(0) < 1)
    problems.add("model.moe_layer_freq: {}, expected at least 1, or a list of 0 and 1",
                 freq.value().at(0));
  check_balancing(moe, problems);
  validate_balance(config, problems);
}

/// Routers read activations anyway where these have the format.
std::string same_router_format(const RunConfig& c, const ConfigOutcome&) {
  const DType activation = precision_recipe(c.mixed_precision).activation;
  const auto& format = c.model.moe.moe_router_dtype;
  return reason_if(
      activation == DType::f64 || (activation == DType::f32 && format == NumberFormat::fp32),
      stated("mixed_precision.recipe", c.mixed_precision.recipe) +
          ": activations have this format, or a wider one");
}

std::string no_tensorboard(const RunConfig& c, const ConfigOutcome&) {
  if (c.model.moe.experts() == 0) return "model.num_moe_experts = null";
  const auto& folder = c.logger.tensorboard_dir;
  return reason_if(!folder.is_auto() && !folder.value(), "logger.tensorboard_dir is null");
}

void refuse_experts(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  const ParallelConfig& sizes = config.parallel;
  if (config.model.moe.experts() > 0) {
    validate_family(config, problems);
    return validate_cuts(config, problems);
  }
  if (config.model.moe.num_moe_experts.is_auto()) return;
  if (sizes.expert_model_parallel_size > 1) {
    problems.add(
        "model.expert_model_parallel_size: {} needs experts, and num_moe_experts is null; expected "
        "1",
        sizes.expert_model_parallel_size);
  }
  if (sizes.expert_tensor() != sizes.tensor_model_parallel_size) {
    problems.add(
        "model.expert_tensor_parallel_size: {} needs experts, and num_moe_experts is null; "
        "expected null",
        sizes.expert_tensor());
  }
}

}  // namespace

Topic experts_topic() {
  std::vector<NoEffectRule> idle{
      {{"model.moe_router_dtype"}, same_router_format},
      {{"logger.moe_per_layer_logging"}, no_tensorboard},
  };
  return {refuse_experts, std::move(idle)};
}

}  // namespace viaduct
