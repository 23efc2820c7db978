#pragma once
// The shards of a checkpoint as a plan cuts them, from tensors that are stored elsewhere.

#include "checkpoint/convert.h"
#include "checkpoint/tensor_source.h"
#include "model/family.h"

namespace viaduct {

/// Writes every tensor of `source` into the shards of a checkpoint under construction in `folder`:
/// pieces of weights as planned, what is stored for a weight ("PREFIX/weight") beside it, what
/// belongs to no planned weight whole in shard 0. `names`: of the family, for stored names. One
/// piece at a time is in memory.
void write_shards(const ShardPlan& plan, const TensorSource& source, const TensorNames& names,
                  const std::filesystem::path& folder);

}  // namespace viaduct
