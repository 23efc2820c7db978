#include "ops/grouped_gemm.h"

#include "ops/reference/reference.h"

namespace viaduct::reference {

void grouped_gemm(const GroupedGemmArgs& args) {
  const int32_t* offsets = args.offsets.data<int32_t>();
  for (int64_t e = 0; e + 1 < args.offsets.dim(0); ++e)
    gemm(product_of_expert(args, e, offsets[e], offsets[e + 1]));
}

}  // namespace viaduct::reference
