#include "model/stream_share.h"

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise.h"

namespace viaduct {
namespace {

int64_t share_elements(const RankContext& context, int64_t elements) {
  const int ranks = context.groups.tp().size();
  return (elements + ranks - 1) / ranks;
}

}  // namespace

Tensor own_share(RankContext& context, const Tensor& whole) {
  const int64_t elements = whole.elements(), most = share_elements(context, elements);
  const int64_t begin = std::min(elements, most * context.groups.tp().rank()),
                count = std::min(most, elements - begin);
  const Tensor share = context.ops.allocate(whole.dtype(), {most}, MemoryTag::saved);
  if (count > 0)
    copy(context.ops, {whole.view({elements}).slice(0, begin, count), share.slice(0, 0, count),
                       WriteMode::assign});
  return share;
}

Tensor gather_shares(RankContext& context, const Tensor& share, const EdgeTensor& whole) {
  const int64_t elements = whole.shape.elements(), most = share_elements(context, elements);
  VIADUCT_CHECK(ShapeError, share.elements() == most && share.dtype() == whole.dtype,
                "shares of \"{}\": expected {} elements of {}, found {}", whole.name, most,
                dtype_name(whole.dtype), describe(share));
  Communicator& tp = context.groups.tp();
  const Tensor all = context.ops.allocate(whole.dtype, {most * tp.size()}, MemoryTag::saved);
  tp.all_gather(share, all).wait();
  return all.slice(0, 0, elements).view(whole.shape);
}

}  // namespace viaduct
