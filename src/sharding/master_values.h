#pragma once
// Masters in the format that ops compute in, whatever their stored format.

#include "ops/dispatch.h"
#include "sharding/shard_run.h"

namespace viaduct {

/// The values of a run's master, flat: the master itself in FP32 or FP64, or a temporary FP32 copy
/// of one in another format.
Tensor master_values(OpContext& context, const ShardRun& run);

/// A place for these values before there are any: the master itself or a temporary one …
Tensor master_place(OpContext& context, const ShardRun& run);
/// … and the master made of them. For remainders this also writes the weight.
void store_master(OpContext& context, const ShardRun& run, const Tensor& values);

/// The run's weights, flat in the 16 bits of `weights`, rounded as a recipe whose masters are in
/// the format `master` stores them: beside remainders (i16) ties are rounded away from zero.
void round_master(OpContext& context, const ShardRun& run, DType master, const Tensor& weights);

}  // namespace viaduct
