#include "ops/cpu/elementwise_kernels.h"
