#include "ops/cpu/column_sum_kernels.h"
