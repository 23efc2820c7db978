#include "ops/cpu/few_rows_float_kernels.h"
