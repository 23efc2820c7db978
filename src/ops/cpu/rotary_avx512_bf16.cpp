#include "ops/cpu/rotary_kernels.h"
