#include "ops/cpu/float_tile_kernels.h"
