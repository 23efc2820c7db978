#pragma once
// Weights that are stored as FP8 codes with one scale each: their shards are written from masters
// after an update, sent as codes, and read by products without conversion. The codes are made from
// the 16-bit weights, which exist for one run at a time. (Megatron's `fp8_param_gather`.)

#include <map>
#include <vector>

#include "comm/parallel_groups.h"
#include "nn/delayed_scales.h"
#include "ops/gemm.h"
#include "sharding/run_cursor.h"
#include "sharding/shard_run.h"

namespace viaduct {

/// Whether a run's weight is stored as codes, so that no op writes it beside the master.
inline bool has_codes(const ShardRun& run) {
  return run.weight.defined() && run.weight.dtype() == DType::e4m3;
}

class CodeWeights {
 public:
  /// For `parameters`, which all have quantized products; by chunk. ConfigError if products of the
  /// ops read weights in another form. `delayed`: scales come from earlier steps; null: from the
  /// weights, with maxima over the tensor ranks and the data ranks, which have the other shards.
  CodeWeights(const OpContext& context, std::vector<std::vector<const Parameter*>> parameters,
              const PrecisionRecipe& recipe, const ParallelGroups& groups, DelayedScales* delayed);

  bool has(const Parameter& parameter) const { return scales_.contains(&parameter); }
  /// The weight with its scale, as products read it. `codes`: of the whole parameter.
  Operand operand(const Parameter& parameter, const Tensor& codes) const;
  /// Writes the codes of those of `runs` (all of a chunk) that have them, and the scales of all its
  /// parameters. All ranks of the stage call it.
  void write(size_t chunk, const std::vector<ShardRun>& runs);

 private:
  /// The elements of one operand of a parameter in a run: where its codes are, and the weights that
  /// they are made from.
  struct Stretch {
    const Parameter* parameter = nullptr;
    int64_t operand = 0;    // of the parameter's
    Tensor weights, codes;  // [1, n] and [n]
  };
  /// Of a run. Nothing where its weight is in 16 bits.
  std::vector<Stretch> stretches_of(const ShardRun& run);
  /// Turns the amaxes f32 [operands] of a chunk's parameters, one after the other, from those of
  /// this rank's shards to those of the whole weights.
  void reduce(const std::vector<const Parameter*>& parameters, const Tensor& amaxes);

  OpContext context_;
  std::vector<std::vector<const Parameter*>> parameters_;  // by chunk
  PrecisionRecipe recipe_;
  ParallelGroups groups_;
  DelayedScales* delayed_;
  OperandForm form_;
  std::map<const Parameter*, Tensor> scales_;  // f32 [operands, 1]
};

}  // namespace viaduct
