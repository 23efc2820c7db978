#pragma once
// What the segments of transformer blocks are made from, and those that the blocks of decoders and
// encoders have in common.

#include <memory>
#include <string>

#include "model/parameter_maker.h"
#include "nn/linear_bias.h"
#include "nn/local_attention.h"
#include "nn/rotary_table.h"
#include "nn/segment.h"

namespace viaduct {

/// Shared state of the builders of a stack of blocks.
struct BlockMaker {
  const ModelConfig& config;
  const TensorNames& names;
  const LayerSettings& settings;
  const ModelPlace& place;
  const ParameterMaker& make;
  std::string stack = {};      // in front of the blocks' paths: "encoder."
  bool causal = true;          // attention of a block to its own stack
  RelativeBias relative = {};  // of all blocks of the stack
  std::shared_ptr<const LinearBiasTables> linear_bias = nullptr;

  std::string path(int64_t layer) const { return stack + "blocks." + std::to_string(layer); }
};

std::unique_ptr<Segment> build_attention(const BlockMaker& maker, int64_t layer,
                                         const RotaryTables& rotary);
std::unique_ptr<Segment> build_mlp(const BlockMaker& maker, int64_t layer);

}  // namespace viaduct
