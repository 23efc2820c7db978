#pragma once
// GPUs and clusters as data (hardware/gpus.yaml, hardware/clusters.yaml, which the binary holds, or
// a file of the user): what a prediction computes with.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hardware/cuda_target.h"

namespace viaduct {

/// By number format ("bf16", "f32", "fp8" …), FLOP/s.
using FormatRates = std::map<std::string, double>;

struct Gpu {
  std::string name;
  std::optional<CudaTarget> architecture;  // of a GPU; none: no kernels of ours
  /// What its driver calls it: "NVIDIA H200". A calibration of another GPU is refused; empty: any
  /// of its architecture is accepted.
  std::vector<std::string> reported_names;
  int multiprocessors = 0;     // 0: not known
  bool is_cpu = false;         // a rank on a CPU: the kernels of the cpu device
  FormatRates dense_flops;     // peaks without sparsity; MFU is computed from them
  FormatRates sparse_flops;    // what some pages print as peaks; never computed with
  FormatRates measured_flops;  // of matrix products, the best; may be empty
  /// What large products of training reach one after the other; formats without an entry: not
  /// measured.
  FormatRates steady_flops;
  FormatRates library_attention_flops;  // of cuDNN's attention; empty: not measured
  double memory_bytes = 0;
  double memory_bytes_per_second = 0;
  double link_bytes_per_second = 0;  // per direction, inside the domain
  double host_bytes_per_second = 0;  // per direction, to the host
  double power_watts = 0;
  /// Share of the kernels' predicted speed that published runs reach (fitted); 1 if not known.
  double step_share = 1;
  struct Price {
    double low = 0, high = 0;  // US dollars an hour
    std::string date;
  };
  std::optional<Price> price;
  std::string source;

  bool has_kernels() const { return is_cpu || architecture.has_value(); }
};

struct Cluster {
  std::string name;
  Gpu gpu;
  int domain = 1;                   // GPUs that fast links join
  double nic_bytes_per_second = 0;  // per GPU and direction, to other domains
  double oversubscription = 1;
  std::optional<bool> switch_reduction;  // its switches sum what NICs send; none: not known
  int gpus_per_host = 1;
  double host_memory_bytes = 0;
  std::string source;
};

std::vector<std::string> gpu_names();
std::vector<std::string> cluster_names();

/// A cluster of the catalog, or of a YAML file (a path that ends in .yaml or .yml: one cluster's
/// fields; `gpu` is a name or a map of a GPU's fields). ConfigError for unknown names (with the
/// nearest), unknown or missing fields, and impossible figures: rates of 0 or less, a measured
/// rate above the dense peak.
Cluster load_cluster(const std::string& name_or_file);
/// A GPU of the catalog.
Gpu load_gpu(const std::string& name);

}  // namespace viaduct
