#pragma once
// Weights that are stored as the codes that products read: their shards are written from masters
// after an update, sent as codes, and read by products without conversion. The codes are made from
// the 16-bit weights, which exist for one run at a time. (Megatron's `fp8_param_gather` and
// `fp4_param_gather`.)

#include <memory>
#include <vector>

#include "comm/parallel_groups.h"
#include "nn/delayed_scales.h"
#include "ops/gemm.h"
#include "sharding/shard_run.h"

namespace viaduct {

/// Whether products read weights of this recipe as codes with one scale for each matrix, or as
/// NVFP4 with a scale for each 16 × 16 elements: forms that can be written from shards.
inline bool can_store_codes(const Quantization& products) {
  return products.scaling == Scaling::tensor || products.scaling == Scaling::nvfp4;
}

class StoredCodes {
 public:
  /// For `parameters`, which all have quantized products; by chunk. ConfigError if products of the
  /// ops read weights in another form.
  StoredCodes(const OpContext& context, std::vector<std::vector<const Parameter*>> parameters,
              const PrecisionRecipe& recipe, const ParallelGroups& groups);
  virtual ~StoredCodes() = default;

  /// The weight with its scales, as products read it. `codes`: of the whole parameter.
  virtual Operand operand(const Parameter& parameter, const Tensor& codes) const = 0;
  /// Writes the codes of those of `runs` (all of a chunk) that have them, and the scales of all its
  /// parameters. All ranks of the stage call it.
  virtual void write(size_t chunk, const std::vector<ShardRun>& runs) = 0;

 protected:
  /// The elements of one operand of a parameter in a run: where its codes are, and the weights that
  /// they are made from.
  struct Stretch {
    const Parameter* parameter = nullptr;
    int64_t operand = 0;    // of the parameter's
    int64_t begin = 0;      // of its row-major elements
    Tensor weights, codes;  // [n] and their codes, flat
  };
  /// Of a run. Nothing where its weight is in 16 bits.
  std::vector<Stretch> stretches_of(const ShardRun& run);
  /// The matrix of one operand of a parameter.
  static Shape matrix_of(const Parameter& parameter);

  OpContext context_;
  std::vector<std::vector<const Parameter*>> parameters_;  // by chunk; those of a grid in a row
  PrecisionRecipe recipe_;
  ParallelGroups groups_;
  OperandForm form_;
};

/// `delayed`: scales of whole matrices come from earlier steps; null: from the weights, with maxima
/// over the tensor ranks and the data ranks, which have the other shards.
std::unique_ptr<StoredCodes> make_stored_codes(
    const OpContext& context, std::vector<std::vector<const Parameter*>> parameters,
    const PrecisionRecipe& recipe, const ParallelGroups& groups, DelayedScales* delayed);

/// Calls f(grid, begin, size) for the values of parameters of one grid among those of all of them,
/// which are one after the other, `count(parameter)` for each.
template <class Count, class F>
void for_each_grid(const std::vector<const Parameter*>& parameters, const Count& count,
                   const F& f) {
  int64_t begin = 0, end = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Grid grid = parameters[i]->grid;
    end += count(*parameters[i]);
    if (i + 1 < parameters.size() && parameters[i + 1]->grid == grid) continue;
    f(grid, begin, end - begin);
    begin = end;
  }
}

}  // namespace viaduct
