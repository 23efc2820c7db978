#include "ops/cpu/attention/attention_tile_backward.h"
#include "ops/cpu/attention/attention_tile_forward.h"
#include "ops/cpu/attention/attention_tile_one_query.h"
