#include "ops/cpu/gemm_kernels.h"
