#include "run/packed_weights.h"

#include "ops/gemm.h"
#include "precision/recipe.h"
#include "run/parallel_settings.h"
#include "run/rank_device.h"

namespace viaduct {
namespace {

// With more tokens, packing a weight costs less than the variation of the GEMMs' time
// (docs/benchmarks.md). AMX multiplies ten times as fast but packs no faster.
constexpr int64_t kMostTokens = 1024;

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
  config.packing.packed_weights.resolve(micro_batches(config) > 1 && short_products &&
                                        reads_tiles(config));
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
