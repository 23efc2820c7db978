#include "ops/cpu/softmax_kernels.h"
