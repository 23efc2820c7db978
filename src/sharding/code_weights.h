#pragma once
// Weights that are stored as FP8 codes with one scale each (`fp8_param_gather` with tensorwise and
// delayed scales).

#include <map>
#include <vector>

#include "sharding/stored_codes.h"

namespace viaduct {

class CodeWeights final : public StoredCodes {
 public:
  /// As `make_stored_codes`.
  CodeWeights(const OpContext& context, std::vector<std::vector<const Parameter*>> parameters,
              const PrecisionRecipe& recipe, const ParallelGroups& groups, DelayedScales* delayed);

  Operand operand(const Parameter& parameter, const Tensor& codes) const override;
  void write(size_t chunk, const std::vector<ShardRun>& runs) override;

 private:
  /// Turns the amaxes f32 [operands] of a chunk's parameters, one after the other, from those of
  /// this rank's shards to those of the whole weights.
  void reduce(const std::vector<const Parameter*>& parameters, const Tensor& amaxes);

  DelayedScales* delayed_;
  std::map<const Parameter*, Tensor> scales_;  // f32 [operands, 1]
};

}  // namespace viaduct
