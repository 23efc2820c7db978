#pragma once
// Writes the shards of a checkpoint according to a plan, from tensors stored elsewhere.

#include "checkpoint/convert.h"
#include "checkpoint/tensor_source.h"
#include "model/family.h"

namespace viaduct {

/// Writes every tensor of `source` into the shards of a checkpoint under construction in `folder`:
/// pieces of weights as planned, other tensors of a weight ("PREFIX/weight") beside it, tensors of
/// no planned weight whole in shard 0. `names`: the family's names, for stored names. One piece at
/// a time is in memory.
void write_shards(const ShardPlan& plan, const TensorSource& source, const TensorNames& names,
                  const std::filesystem::path& folder);

}  // namespace viaduct
