#include "nn/split_rows.h"

#include "comm/row_part.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

Communicator& ranks_of(const RankContext& context) {
  return *context.groups.of(GroupKind::tp_split);
}

RowPart part_of(const RankContext& context, int64_t all) {
  const Communicator& ranks = ranks_of(context);
  return RowPart::of(all, ranks.size(), ranks.rank());
}

}  // namespace

int64_t split_rows(const RankContext& context, int64_t all) {
  return part_of(context, all).rows;
}

Tensor gather_split_rows(RankContext& context, const Tensor& part, int64_t all, MemoryTag tag) {
  if (all == 0) return part;
  Communicator& ranks = ranks_of(context);
  const int64_t each = RowPart::most(all, ranks.size()), width = part.dim(1);
  Tensor own = part;
  if (part.dim(0) < each) {  // the last ones have fewer rows
    own = context.activation({each, width}, MemoryTag::activations);
    fill(context.ops, {own, 0});
    if (part.dim(0) > 0) copy(context.ops, {part, own.slice(0, 0, part.dim(0))});
  }
  const Tensor whole = context.activation({ranks.size() * each, width}, tag);
  ranks.all_gather(own, whole).wait();
  return whole.slice(0, 0, all);
}

Tensor cut_split_rows(const RankContext& context, const Tensor& all) {
  const RowPart part = part_of(context, all.dim(0));
  return all.slice(0, part.begin, part.rows);
}

}  // namespace viaduct
