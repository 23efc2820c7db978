#include "ops/cpu/attention_kernels.h"
