// Checks that the double of the runtime has the toolkit's values. Compiled where there is a CUDA
// toolkit (preset `cuda`).

#include "values.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#define CUDA_HOST_CHECK(name, value) \
  static_assert(static_cast<int>(name) == (value), "the double of the CUDA runtime: " #name);
CUDA_HOST_ERRORS(CUDA_HOST_CHECK)
CUDA_HOST_COPY_KINDS(CUDA_HOST_CHECK)
CUDA_HOST_CAPTURE_MODES(CUDA_HOST_CHECK)
CUDA_HOST_CAPTURE_STATUSES(CUDA_HOST_CHECK)
CUDA_HOST_ENTRY_POINTS(CUDA_HOST_CHECK)
CUDA_HOST_DRIVER_RESULTS(CUDA_HOST_CHECK)
CUDA_HOST_DRIVER_ATTRIBUTES(CUDA_HOST_CHECK)
CUDA_HOST_DRIVER_VALUES(CUDA_HOST_CHECK)
CUDA_HOST_ATTRIBUTES(CUDA_HOST_CHECK)
CUDA_HOST_FLAGS(CUDA_HOST_CHECK)
