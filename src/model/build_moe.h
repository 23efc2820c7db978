#pragma once
// The segments of a block whose feed-forward is a mixture of experts.

#include <memory>
#include <vector>

#include "model/model_place.h"
#include "model/parameter_maker.h"
#include "nn/segment.h"

namespace viaduct {

/// What a block's segments are made from.
struct MoeBuild {
  const ModelConfig& config;
  const TensorNames& names;
  const LayerSettings& settings;
  const ModelPlace& place;
  const ParameterMaker& make;
};

/// Router, (shared expert, unless dispatch has it), dispatch, experts, combine. ConfigError if the
/// family has no names for their tensors.
std::vector<std::unique_ptr<Segment>> build_moe(const MoeBuild& build, int64_t layer);

}  // namespace viaduct
