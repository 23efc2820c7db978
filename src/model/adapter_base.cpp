#include "model/adapter_base.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "config/choice.h"
#include "model/adapter_modules.h"
#include "model/expert_adapters.h"
#include "sharding/frozen_weights.h"

namespace viaduct {
namespace {

/// The ranks that cut a matrix: those of tensor parallelism, and those that share an expert.
struct Cuts {
  int64_t tensor = 1, expert = 1;
};

/// Why a layer cannot be stored so by each of its ranks; "" if it can.
std::string misfit(BaseFormat format, const ModelConfig& model, const AdaptableModule& module,
                   const Cuts& cuts, const BlockTypes& blocks) {
  const bool of_expert = is_expert_module(module.name);
  // What every tensor rank holds whole (routers, down-projections of latent attention, projections
  // of multi-token prediction) has the recipe's format. Gate and up as one are these two.
  if (!module.magnitudes && (!of_expert || module.named_only)) return "";
  const int64_t ranks = of_expert ? cuts.expert : cuts.tensor;
  int64_t block = stored_columns(format);
  if (format == BaseFormat::blocks) {
    const auto type = blocks.find(module.name + ".weight");
    if (type == blocks.end()) return "";  // it has the recipe's format
    block = gguf_type(type->second).block;
  }
  const bool by_inputs = module.layer == "linear_proj" || module.layer == "linear_fc2";
  if (by_inputs && ranks > 1) {
    const int64_t here = module.in / ranks;
    if (here % block == 0 && module.in % block == 0) return "";
    return fmt::format(
        "a tensor rank has {} of the {} input features of {}, and {} elements have "
        "one scale",
        here, module.in, module.name, block);
  }
  if (format != BaseFormat::nf4) return "";
  // Heads of keys and values are the smallest pieces of their layer.
  const int64_t rows = by_inputs || ranks == 1 ? module.out
                       : module.layer == "linear_qkv" && !model.latent.any()
                           ? model.head_dim_of(module.block) *
                                 std::max<int64_t>(1, model.kv_heads_of(module.block) / ranks)
                           : module.out / ranks;
  if (rows * module.in % block == 0 && module.in % 2 == 0) return "";
  return fmt::format(
      "{} of {} × {} elements in a tensor rank are no multiple of {}, which have one "
      "scale",
      module.name, rows, module.in, block);
}

/// Of the first layer that cannot be stored so: of experts, or of the others.
std::string misfit(BaseFormat format, const ModelConfig& model, const Cuts& cuts,
                   const BlockTypes& blocks, bool of_experts) {
  for (const AdaptableModule& module : adaptable_modules(model)) {
    if (is_expert_module(module.name) != of_experts) continue;
    std::string why = misfit(format, model, module, cuts, blocks);
    if (!why.empty()) return why;
  }
  return "";
}

}  // namespace

std::string base_format_problem(BaseFormat format, const ModelConfig& model, int tensor_ranks,
                                const BlockTypes& blocks, int expert_ranks) {
  if (model.vision.any())
    return fmt::format(
        "peft.base_format: {} is not implemented for a model that reads images; expected null, or "
        "model.read_images=false for its text model alone",
        choice_name(format));
  if (format == BaseFormat::blocks && (model.moe.any() || model.latent.any()))
    return fmt::format(
        "peft.base_format: the blocks of a GGUF file do not stay for models with {} (model family "
        "{}); expected bf16, fp8, nf4 or null",
        model.moe.any() ? "experts" : "latent attention", model.family);
  const Cuts asked{tensor_ranks, expert_ranks};
  for (const bool of_experts : {false, true}) {
    const std::string why = misfit(format, model, asked, blocks, of_experts);
    if (why.empty()) continue;
    const int64_t here = of_experts ? expert_ranks : tensor_ranks;
    const int64_t features = of_experts ? model.moe.feed_forward : model.feed_forward;
    int64_t nearest = 0;
    for (int64_t ranks = 1; ranks <= model.heads; ++ranks) {
      const bool cuts = features % ranks == 0 &&
                        (of_experts || (model.heads % ranks == 0 && (model.kv_heads % ranks == 0 ||
                                                                     ranks % model.kv_heads == 0)));
      if (!cuts || !misfit(format, model, {ranks, ranks}, blocks, of_experts).empty()) continue;
      if (nearest == 0 || std::abs(ranks - here) < std::abs(nearest - here)) nearest = ranks;
    }
    return fmt::format("peft.base_format with model.{}tensor_{}parallel_size = {}: {}; {}",
                       of_experts ? "expert_" : "", of_experts ? "" : "model_", here, why,
                       nearest > 0 ? fmt::format("nearest degree that works: {}", nearest)
                                   : std::string("expected bf16, fp8 or null"));
  }
  return "";
}

void check_base_format(BaseFormat format, const ModelConfig& model, int tensor_ranks,
                       const BlockTypes& blocks, int expert_ranks) {
  const std::string problem =
      base_format_problem(format, model, tensor_ranks, blocks, expert_ranks);
  if (!problem.empty()) throw ConfigError(problem);
}

}  // namespace viaduct
