// Compares the values of the double of cuBLASLt with the toolkit's header. Compiled if there is a
// toolkit; never run.

#include <cublasLt.h>

#include "values.h"

#define CHECK_VALUE(name, value) \
  static_assert(static_cast<int>(name) == (value), #name " has another value");
CUBLASLT_DATA_TYPES(CHECK_VALUE)
CUBLASLT_STATUSES(CHECK_VALUE)
CUBLASLT_OPERATIONS(CHECK_VALUE)
CUBLASLT_COMPUTE_TYPES(CHECK_VALUE)
CUBLASLT_POINTER_MODES(CHECK_VALUE)
CUBLASLT_EPILOGUES(CHECK_VALUE)
CUBLASLT_SCALES(CHECK_VALUE)
CUBLASLT_REDUCTION_SCHEMES(CHECK_VALUE)
CUBLASLT_DESC_ATTRIBUTES(CHECK_VALUE)
CUBLASLT_PREFERENCES(CHECK_VALUE)

static_assert(sizeof(cublasLtMatmulAlgo_t) == 64);
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 64 + 8 + 4 + 4 + 16);
