#include "ops/cpu/state_kernels.h"
