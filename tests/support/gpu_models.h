#pragma once
// Models and settings whose gradients on a GPU are compared with the cpu's, on the doubles
// (exact/cuda) and on a GPU (gpu).

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "support/training.h"

namespace viaduct::test {

struct GpuModel {
  std::string name, model;  // model: of data/golden
  Overrides settings;
  double limit;        // relative L2 distance of a tensor, or of all together, from the cpu's
  bool guard = false;  // on the doubles one of the orders also forbids host access to the memory
  Overrides on_cuda = {};  // of the cuda runs alone
  int capability = 90;     // of the first GPU that has the format
  /// The limit is that of all gradients together: last bits decide how FP4 rounds, and how much of
  /// it a single tensor sees differs from one instruction set of the cpu to another.
  bool together = false;
};
void PrintTo(const GpuModel& model, std::ostream* out);

std::vector<GpuModel> gpu_models();

/// Loss and gradients by name, with settings beside the model's.
std::map<std::string, Tensor> probe_gpu_model(const GpuModel& model, const Overrides& more);

/// Checks that loss and gradients of the GPU are those of the cpu within the model's limit.
void expect_near_cpu(const GpuModel& model, const std::map<std::string, Tensor>& gpu,
                     const std::map<std::string, Tensor>& cpu);

}  // namespace viaduct::test
