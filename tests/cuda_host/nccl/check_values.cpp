// Compares the values of the double of NCCL with the library's header. Compiled where there is one
// (preset `cuda`); never run.

#include "values.h"

#include <nccl.h>

#define CHECK_VALUE(name, value) \
  static_assert(static_cast<int>(name) == (value), "the double of NCCL: " #name);
NCCL_DOUBLE_RESULTS(CHECK_VALUE)
NCCL_DOUBLE_TYPES(CHECK_VALUE)
NCCL_DOUBLE_OPERATIONS(CHECK_VALUE)
NCCL_DOUBLE_CONSTANTS(CHECK_VALUE)

static_assert(sizeof(ncclUniqueId) == 128);
