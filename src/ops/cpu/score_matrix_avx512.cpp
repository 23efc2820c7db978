#include "ops/cpu/score_matrix_kernels.h"
