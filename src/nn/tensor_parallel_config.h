#pragma once
// Communication of tensor parallelism hidden under GEMMs: the switches of section `model`, the
// table and its defaults of section `comm_overlap`.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "config/name_or_map.h"
#include "config/problems.h"
#include "nn/gemm_overlap.h"
#include "nn/kernel_settings.h"

namespace viaduct {

struct TensorOverlapConfig {
  // Section `comm_overlap`.
  /// `auto`: tp > 1, sequence parallel and static shapes.
  Auto<bool> tp_comm_overlap;
  /// GEMM name → {method, num_splits, aggregate, fp8_buf, and those of KernelSettings}; or the name
  /// of such a table (nn/gemm_overlap_presets.h).
  NameOrMap tp_comm_overlap_cfg;
  // For every GEMM without an entry in the table.
  std::optional<OverlapMethod> method;  // for GEMMs that allow it
  std::optional<int> num_splits;        // of pipelined GEMMs
  bool aggregate = false;               // of rings
  bool fp8_buf = false;                 // where an output is reduce-scattered in chunks
  KernelSettings kernels;               // on GPUs

  // Section `model`.
  bool tp_comm_bulk_dgrad = true;
  bool tp_comm_bulk_wgrad = true;
  bool tp_comm_overlap_ag = true;
  bool tp_comm_overlap_rs = true;
  bool tp_comm_overlap_rs_dgrad = false;
  bool tp_comm_overlap_disable_qkv = false;
  bool tp_comm_overlap_disable_fc1 = false;
};

/// Fields of section `comm_overlap`.
FieldGroup tensor_overlap_fields(TensorOverlapConfig& config);
/// Fields of section `model`.
FieldGroup tensor_switch_fields(TensorOverlapConfig& config);

/// What the rows depend on besides the settings.
struct OverlapConditions {
  int tp = 1;
  /// Greatest common divisor of the output features of all pipelined GEMMs; 0: not known yet.
  int64_t features = 0;
  /// The schedule runs weight gradients later than input gradients (zero bubble): a weight gradient
  /// computed during the exchange of an input gradient would no longer fill the bubble, and would
  /// delay the previous stage.
  bool weight_gradients_wait = false;
  bool fp8_products = false;      // the recipe has layers with FP8 products
  int64_t group = 1;              // chunks of output features are multiples of it
  bool on_gpu = false;            // kernels have settings (`KernelSettings`)
  bool symmetric_memory = false;  // NCCL knows the run's memory on all ranks (ddp.nccl_ub)
  std::string_view group_text = "which share a scale";  // why chunks are multiples of `group`
};

/// The ten rows; without overlap all are `none`. Adds every problem of the table (unknown GEMM,
/// method that the GEMM does not have, chunks that do not divide, both halves of a contradiction)
/// to `problems`, and settings without effect to `notes`.
GemmOverlapTable resolve_gemm_overlap(const TensorOverlapConfig& config,
                                      const OverlapConditions& conditions, Problems& problems,
                                      std::vector<std::string>* notes = nullptr);

/// A note for the user: how deferred weight gradients changed the rows of qkv and fc1; empty if
/// nothing overlaps or nothing is deferred.
std::string waiting_gradients_note(const GemmOverlapTable& table,
                                   const OverlapConditions& conditions);

}  // namespace viaduct
