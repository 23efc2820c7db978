#include "ops/cpu/cross_entropy_kernels.h"
