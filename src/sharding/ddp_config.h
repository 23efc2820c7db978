#pragma once
// Section `ddp`: gradient buffers and their reduction over data-parallel ranks.

#include "config/field.h"

namespace viaduct {

struct DdpConfig {
  bool use_distributed_optimizer = true;
  bool overlap_grad_reduce = true;
  /// `auto`: where the distributed optimizer and overlap_grad_reduce are on.
  Auto<bool> overlap_param_gather;
  /// `auto`: pp > 1 with virtual stages.
  Auto<bool> align_param_gather;
  /// Elements; `auto`: max(40 000 000, 1 000 000 · data-parallel size).
  Auto<int64_t> bucket_size;
  bool grad_reduce_in_fp32 = true;
  bool average_in_collective = false;
  bool check_for_nan_in_grad = true;

  void resolve(int64_t data_parallel_size);
};

FieldGroup ddp_fields(DdpConfig& config);

}  // namespace viaduct
