#pragma once
// Section `dist` (ranks and devices) and the parallel sizes, which Megatron keeps in `model`.

#include <optional>
#include <string>

#include "config/field.h"

namespace viaduct {

struct DistConfig {
  int ranks = 1;
  /// "cpu", "cuda" or "sim"; `auto`: cuda where one is usable, else cpu.
  Auto<std::string> device;
  /// "avx2", "avx512" or "amx"; `auto`: the best of this machine.
  Auto<std::string> cpu_isa;
  /// `auto`: max(1, cores / ranks on this machine).
  Auto<int> threads_per_rank;
  double distributed_timeout_minutes = 10;
  bool use_tp_pp_dp_mapping = false;
};

/// tp, pp, cp, ep and what belongs to them.
struct ParallelConfig {
  int tensor_model_parallel_size = 1;
  int pipeline_model_parallel_size = 1;
  std::optional<int> virtual_pipeline_model_parallel_size;
  int context_parallel_size = 1;
  int expert_model_parallel_size = 1;
  std::optional<int> expert_tensor_parallel_size;
  /// `auto`: tp > 1 and the sequence divides by it.
  Auto<bool> sequence_parallel;
};

FieldGroup dist_fields(DistConfig& config);
FieldGroup parallel_fields(ParallelConfig& config);

}  // namespace viaduct
