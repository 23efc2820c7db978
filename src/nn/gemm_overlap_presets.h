#pragma once
// Named tables of overlapped GEMMs: the tuned settings of Megatron-Bridge and NeMo for one model on
// one GPU, under their names (userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192). Source of the
// numbers: Megatron-Bridge, src/megatron/bridge/training/comm_overlap.py.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/problems.h"
#include "config/value.h"

namespace viaduct {

struct OverlapPreset {
  std::string_view name;
  int64_t hidden = 0;  // of the model that it was tuned for
  int tp = 1;
  /// As comm_overlap.tp_comm_overlap_cfg: GEMM → settings. A row has a method only if it differs
  /// from the GEMM's default.
  Value table() const;

  // Multiprocessors of the bulk methods: qkv_dgrad, qkv_wgrad, fc1_dgrad, fc1_wgrad; 0: no entry
  // (adapters have no weight gradients), −1: a pipeline (only fc1_dgrad).
  int bulk[4] = {};
  // Multiprocessors of proj_fprop and fc2_fprop: for a pipeline, or 0 for a ring.
  int scatter[2] = {};
  bool fp8_buf = false;    // pipelines and their rings send FP8
  bool aggregate = false;  // of the rings that gather
};

std::vector<std::string> overlap_preset_names();
/// Adds to `notes`, if given, the settings of the preset that have no effect on the cpu. For an
/// unknown name: nullptr, and a problem with the nearest name.
const OverlapPreset* overlap_preset(std::string_view name, Problems& problems,
                                    std::vector<std::string>* notes = nullptr);

}  // namespace viaduct
