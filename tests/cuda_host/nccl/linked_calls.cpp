// Replaces src/comm/nccl/nccl_library.cpp: the functions of the double, which is linked.

#include "comm/nccl/nccl_calls.h"

namespace viaduct {

const NcclCalls& nccl_calls() {
#define NCCL_DOUBLE_CALL(name) &::name,
  static const NcclCalls calls{VIADUCT_NCCL_CALLS(NCCL_DOUBLE_CALL)
                                   VIADUCT_NCCL_SYMMETRIC_CALLS(NCCL_DOUBLE_CALL)};
#undef NCCL_DOUBLE_CALL
  return calls;
}

}  // namespace viaduct
