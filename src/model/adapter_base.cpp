#include "model/adapter_base.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "model/adapter_modules.h"
#include "sharding/frozen_weights.h"

namespace viaduct {
namespace {

/// Why a layer cannot be stored so by each of `ranks` tensor ranks; "" if it can.
std::string misfit(BaseFormat format, const ModelConfig& model, const AdaptableModule& module,
                   int64_t ranks, const BlockTypes& blocks) {
  if (module.layer == kFurtherProjection) return "";  // it has the recipe's format
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
                       : module.layer == "linear_qkv"
                           ? model.head_dim_of(module.block) *
                                 std::max<int64_t>(1, model.kv_heads_of(module.block) / ranks)
                           : module.out / ranks;
  if (rows * module.in % block == 0 && module.in % 2 == 0) return "";
  return fmt::format(
      "{} of {} × {} elements in a tensor rank are no multiple of {}, which have one "
      "scale",
      module.name, rows, module.in, block);
}

/// Of the first layer that cannot be stored so.
std::string misfit(BaseFormat format, const ModelConfig& model, int64_t ranks,
                   const BlockTypes& blocks) {
  for (const AdaptableModule& module : adaptable_modules(model)) {
    std::string why = misfit(format, model, module, ranks, blocks);
    if (!why.empty()) return why;
  }
  return "";
}

}  // namespace

std::string base_format_problem(BaseFormat format, const ModelConfig& model, int tensor_ranks,
                                const BlockTypes& blocks) {
  if (model.moe.any() || model.latent.any())
    return fmt::format(
        "peft.base_format: frozen weights of models with {} have the recipe's format; expected "
        "null (model family {})",
        model.moe.any() ? "experts" : "latent attention", model.family);
  const std::string why = misfit(format, model, tensor_ranks, blocks);
  if (why.empty()) return "";
  int64_t nearest = 0;
  for (int64_t ranks = 1; ranks <= model.heads; ++ranks) {
    const bool cuts = model.heads % ranks == 0 && model.feed_forward % ranks == 0 &&
                      (model.kv_heads % ranks == 0 || ranks % model.kv_heads == 0);
    if (!cuts || !misfit(format, model, ranks, blocks).empty()) continue;
    if (nearest == 0 || std::abs(ranks - tensor_ranks) < std::abs(nearest - tensor_ranks))
      nearest = ranks;
  }
  return fmt::format("peft.base_format with model.tensor_model_parallel_size = {}: {}; {}",
                     tensor_ranks, why,
                     nearest > 0 ? fmt::format("nearest degree that works: {}", nearest)
                                 : std::string("expected bf16, fp8 or null"));
}

void check_base_format(BaseFormat format, const ModelConfig& model, int tensor_ranks,
                       const BlockTypes& blocks) {
  const std::string problem = base_format_problem(format, model, tensor_ranks, blocks);
  if (!problem.empty()) throw ConfigError(problem);
}

}  // namespace viaduct
