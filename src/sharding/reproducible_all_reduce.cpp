#include "sharding/reproducible_all_reduce.h"

namespace viaduct {

void reproducible_all_reduce(OpContext& context, Communicator& group, const Tensor& state) {
  if (group.size() == 1) return;
  const Tensor wide = context.allocate(DType::i64, {kWideSumSize}, MemoryTag::other);
  widen_sum(context, {state, wide});
  group.all_reduce(wide, ReduceOp::sum).wait();
  narrow_sum(context, {wide, state});
}

}  // namespace viaduct
