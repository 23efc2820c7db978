#include "run/packed_weights.h"

#include <algorithm>

#include "ops/gemm.h"
#include "precision/recipe.h"
#include "run/parallel_settings.h"
#include "run/rank_device.h"

namespace viaduct {
namespace {

// With more tokens, packing a weight costs less than the variation of the GEMMs' time
// (docs/benchmarks.md). AMX multiplies ten times as fast but packs no faster.
constexpr int64_t kMostTokens = 1024;

// Parameters of frozen weights, those of all data-parallel copies, whose tiles (4 bytes each) are
// worth their memory: 2 GiB.
constexpr double kMostFrozen = 512.0 * 1024 * 1024;

/// The most parameters that products of the model may have, by its sizes.
double most_product_parameters(const ModelFields& model) {
  const auto size = [](const Auto<int64_t>& field) {
    return static_cast<double>(field.value_or(0));
  };
  const double hidden = size(model.hidden_size);
  const double experts = static_cast<double>(std::max<int64_t>(1, model.moe.experts()));
  const double layer = 4 * hidden * size(model.num_attention_heads) * size(model.kv_channels) +
                       3 * hidden * size(model.ffn_hidden_size) * experts;
  const double layers =
      size(model.num_layers) + static_cast<double>(model.encoder.encoder_num_layers.value_or(0));
  return layers * layer + hidden * size(model.vocab_size);
}

/// Whether frozen weights are whole on each rank and small: then tiles of them are made once, and
/// no step packs them again.
bool keeps_frozen_tiles(const RunConfig& config) {
  const bool as_codes = config.peft.base_format && *config.peft.base_format != BaseFormat::bf16;
  if (as_codes || config.ddp.shards_weights()) return false;
  const auto copies = static_cast<double>(data_parallel_size(config));
  return copies * most_product_parameters(config.model) <= kMostFrozen;
}

}  // namespace

bool reads_tiles(const RunConfig& config) {
  if (config.cuda_target) return false;
  return reads_packed_weights(cpu_ops(cpu_isa_of(config.dist), true),
                              precision_recipe(config.mixed_precision.recipe).weight);
}

void resolve_packed_weights(RunConfig& config) {
  if (!config.packing.packed_weights.is_auto()) return;
  const int64_t tokens = config.train.micro_batch_rows() * config.model.seq_length.value_or(0) /
                         config.parallel.context_parallel_size;
  const bool short_products = tokens <= kMostTokens || cpu_isa_of(config.dist) == CpuIsa::amx;
  const bool pays = config.peft.adapts() ? keeps_frozen_tiles(config)
                                         : micro_batches(config) > 1 && short_products;
  config.packing.packed_weights.resolve(pays && reads_tiles(config));
}

void validate_packed_weights(const RunConfig& config, Problems& problems) {
  if (config.packing.packed_weights.value_or(false) && !reads_tiles(config)) {
    problems.add(
        "model.packed_weights: true needs products that read tiles: dist.cpu_isa avx512_bf16 or "
        "amx and a recipe with BF16 weights, found {} and {}; auto leaves it off",
        cpu_isa_name(cpu_isa_of(config.dist)), choice_name(config.mixed_precision.recipe));
  }
}

}  // namespace viaduct
