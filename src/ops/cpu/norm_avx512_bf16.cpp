#include "ops/cpu/norm_kernels.h"
