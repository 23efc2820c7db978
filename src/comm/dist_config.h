#pragma once
// Section `dist` (ranks and devices) and the parallel sizes, which Megatron keeps in `model`.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/device_kind.h"
#include "config/field.h"
#include "hardware/cpu_isa.h"

namespace viaduct {

/// What carries tensors between GPUs.
enum class TensorTransport {
  nccl,
  gloo,  // the memory of hosts (comm/staged_communicator.h)
  ucc,   // refused
};
constexpr auto choice_names(TensorTransport) {
  return std::to_array<std::string_view>({"nccl", "gloo", "ucc"});
}

struct DistConfig {
  int ranks = 1;
  /// `auto`: cuda where one is usable, else cpu.
  Auto<DeviceKind> device;
  /// `auto`: the best of this machine.
  Auto<CpuIsa> cpu_isa;
  /// `auto`: max(1, cores / ranks on this machine).
  Auto<int> threads_per_rank;
  double distributed_timeout_minutes = 10;
  bool use_tp_pp_dp_mapping = false;
  /// Devices that share a fast domain; null: not checked.
  std::optional<int> nvlink_domain_size;
  /// Of device "sim": a cluster of the catalog, or a YAML file (hardware/cluster.h).
  std::optional<std::string> cluster;

  /// Of device "cuda": where the choice of cuBLASLt's algorithms is kept
  /// (ops/cuda/algorithm_file.h).
  std::optional<std::string> product_algorithms_path;

  // Of NCCL's connections (comm/nccl_options.h).
  std::optional<std::string> nccl_communicator_config_path;
  bool nccl_blocking = false;
  std::optional<int> nccl_multiprocessors;
  bool use_sharp = false, nccl_ub = false;
  /// Memory that is registered is not symmetric over the ranks of a group.
  bool disable_symmetric_registration = false;
  /// Not a field: `resolve` (run/run_config.h) sets it where the ranks of a group have their memory
  /// at the same places and symmetric registration is wanted.
  bool symmetric_memory = false;

  /// Not a field: ranks are threads of one process (run/launch.h), whose GPUs NCCL lets access each
  /// other's memory.
  bool in_one_process = true;
  /// Not a field: a line for each variable that this process has set before it asked for a GPU
  /// (run/launch.h).
  std::vector<std::string> environment_notes;

  // Of device "cuda":
  TensorTransport distributed_backend = TensorTransport::nccl;
  /// In section `model`; null: as the other groups.
  std::optional<TensorTransport> pipeline_model_parallel_comm_backend;
  /// Groups whose communication goes before computation (comm/stream_priority.h); null: all.
  std::optional<std::vector<std::string>> high_priority_stream_groups;
  /// Of the GPUs of a machine (run/gpu_boost.h); null: it stays as it is.
  std::optional<int> vboost;
  /// Whether ranks are bound to a memory node (run/rank_binding.h); null: with "cuda" to the cores
  /// near their GPU.
  std::optional<bool> numactl;

  /// The device, `auto` replaced where it was not resolved.
  DeviceKind device_kind() const { return device.value_or(DeviceKind::cpu); }
  bool on_cuda() const { return device_kind() == DeviceKind::cuda; }
  bool simulated() const { return device_kind() == DeviceKind::sim; }

  /// The order of axes for `Mesh`, leftmost varies fastest.
  std::string_view mesh_order() const {
    return use_tp_pp_dp_mapping ? "tp-cp-ep-pp-dp" : "tp-cp-ep-dp-pp";
  }
};

/// The sizes of the mesh's axes, and sequence parallelism, which shares the tensor axis.
struct ParallelConfig {
  int tensor_model_parallel_size = 1;
  int pipeline_model_parallel_size = 1;
  int encoder_pipeline_model_parallel_size = 0;  // 0: on the decoder's first stage
  int encoder_tensor_model_parallel_size = 0;    // 0: as the decoder's
  int context_parallel_size = 1;
  int expert_model_parallel_size = 1;
  std::optional<int> expert_tensor_parallel_size;
  /// `auto`: tp > 1 and the sequence divides by it.
  Auto<bool> sequence_parallel;

  /// Of the encoder and of the decoder, one behind the other.
  int stages() const { return encoder_pipeline_model_parallel_size + pipeline_model_parallel_size; }
  int encoder_tensor() const {
    return encoder_tensor_model_parallel_size == 0 ? tensor_model_parallel_size
                                                   : encoder_tensor_model_parallel_size;
  }
  /// Ranks that hold one replica of the model and share one sequence: cp · (etp · epp + tp · pp).
  int64_t model_ranks() const {
    return int64_t{1} * context_parallel_size *
           (int64_t{1} * encoder_tensor() * encoder_pipeline_model_parallel_size +
            int64_t{1} * tensor_model_parallel_size * pipeline_model_parallel_size);
  }
  int expert_tensor() const {
    return expert_tensor_parallel_size.value_or(tensor_model_parallel_size);
  }
};

FieldGroup dist_fields(DistConfig& config);
/// Those of section `ddp`.
FieldGroup dist_buffer_fields(DistConfig& config);
/// Those of section `model`.
FieldGroup dist_model_fields(DistConfig& config);
FieldGroup parallel_fields(ParallelConfig& config);

}  // namespace viaduct
