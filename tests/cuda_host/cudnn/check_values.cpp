// Compares the values of the double of cuDNN with the library's header. Compiled where there is one
// (preset `cuda`); never run.

#include "values.h"

#include <cudnn_graph.h>

#define CHECK_VALUE(name, value) \
  static_assert(static_cast<int>(name) == (value), #name " has another value");
CUDNN_STATUSES(CHECK_VALUE)
CUDNN_DATA_TYPES(CHECK_VALUE)
CUDNN_REDUCTIONS(CHECK_VALUE)
CUDNN_POINTWISE_MODES(CHECK_VALUE)
CUDNN_HEURISTICS(CHECK_VALUE)
CUDNN_NUMERICAL_NOTES(CHECK_VALUE)
CUDNN_DESCRIPTORS(CHECK_VALUE)
CUDNN_ATTRIBUTE_TYPES(CHECK_VALUE)
CUDNN_ATTRIBUTES(CHECK_VALUE)
