#include "ops/cpu/optimizer_kernels.h"
