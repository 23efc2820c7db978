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
  double limit;        // relative L2 distance of a tensor from the cpu's
  bool guard = false;  // on the doubles one of the orders also forbids host access to the memory
  Overrides on_cuda = {};  // of the cuda runs alone
  int capability = 90;     // of the first GPU that has the format
};
void PrintTo(const GpuModel& model, std::ostream* out);

std::vector<GpuModel> gpu_models();

/// Loss and gradients by name, with settings beside the model's.
std::map<std::string, Tensor> probe_gpu_model(const GpuModel& model, const Overrides& more);

}  // namespace viaduct::test
