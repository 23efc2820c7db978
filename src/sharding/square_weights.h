#pragma once
// Weights that are stored as NVFP4 codes with a scale for each 16 × 16 elements
// (`fp4_param_gather`). Shards cut these squares: each rank finds the largest magnitudes in its
// part of them, a maximum over the data ranks joins these, and all ranks make the same scales of
// all squares; only codes are gathered.

#include <map>
#include <vector>

#include "sharding/stored_codes.h"

namespace viaduct {

class SquareWeights final : public StoredCodes {
 public:
  SquareWeights(const OpContext& context, std::vector<std::vector<const Parameter*>> parameters,
                const PrecisionRecipe& recipe, const ParallelGroups& groups);

  Operand operand(const Parameter& parameter, const Tensor& codes) const override;
  void write(size_t chunk, const std::vector<ShardRun>& runs) override;

 private:
  /// Of a parameter's operands, one after the other.
  struct Scales {
    Tensor squares;   // e4m3 [operands · rows of squares, squares in a row]
    Tensor matrices;  // f32 [operands]
  };
  /// A chunk's magnitudes f32 of all squares, and of all operands.
  struct Magnitudes {
    Tensor squares, operands;
    std::map<const Parameter*, int64_t> first_square, first_operand;
  };
  /// [operands · rows of squares, squares in a row]; with `operand` of this one of them.
  static Tensor squares_of(const Magnitudes& of, const Parameter& parameter);
  static Tensor squares_of(const Magnitudes& of, const Parameter& parameter, int64_t operand);
  /// Of the whole weights: joined over the data ranks, and those of operands over tensor ranks.
  Magnitudes magnitudes(size_t chunk, const std::vector<ShardRun>& runs);

  std::map<const Parameter*, Scales> scales_;
};

}  // namespace viaduct
