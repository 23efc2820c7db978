#pragma once
// The state of a reproducible sum over the ranks of a group: bitwise the same for any split of the
// same values over ranks.

#include "comm/communicator.h"
#include "ops/optimizer.h"

namespace viaduct {

/// state (f64 [kReproducibleSumSize]) becomes the merge of all ranks' states: one all-reduce and
/// two launches, whatever the size of the group.
void reproducible_all_reduce(OpContext& context, Communicator& group, const Tensor& state);

}  // namespace viaduct
