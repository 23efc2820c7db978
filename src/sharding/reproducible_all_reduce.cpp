#include "sharding/reproducible_all_reduce.h"

#include "ops/elementwise.h"

namespace viaduct {

void reproducible_all_reduce(OpContext& context, Communicator& group, const Tensor& state) {
  if (group.size() == 1) return;
  const Tensor all =
      context.allocate(state.dtype(), {group.size(), state.dim(0)}, MemoryTag::other);
  group.all_gather(state.view({1, state.dim(0)}), all).wait();
  fill(context, {state, 0});
  for (int rank = 0; rank < group.size(); ++rank) merge_sums(context, {state, all.select(rank)});
}

}  // namespace viaduct
