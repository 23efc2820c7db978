#pragma once
// A few steps of training on random rows, and their complete results, which the exactness suites
// compare.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"

namespace viaduct::test {

struct TrainingRun {
  ModelConfig model;
  std::string recipe = "fp32";
  int threads = 2;
  CpuIsa isa = instruction_set();
  uint64_t seed = 1234;
  int64_t rows = 4, length = 40, rows_per_batch = 4;
  double loss_scale = 1;
  bool packed_weights = false;
  /// The table of ops for the instruction set; none: `cpu_ops`.
  std::function<OpTable(CpuIsa)> ops = {};
  /// The device for a number of threads; none: `make_cpu_device`.
  std::function<std::unique_ptr<Device>(int)> device = {};
  Quantization products = {};                  // of all blocks; none: the recipe's
  std::vector<std::string> plain_layers = {};  // as PrecisionRecipe
};

/// Trains step by step, so that several can be interleaved.
class StepTrainer {
 public:
  explicit StepTrainer(const TrainingRun& run);

  /// Runs one step over rows that depend only on the step's number; `update` false: only gradients.
  StepResult step(bool update = true);
  Engine& engine() { return *engine_; }
  /// Bytes of weights, masters, gradients and moments of every parameter, and of the losses and
  /// norms so far.
  std::string state() const;
  /// The main gradients as doubles, by parameter.
  std::vector<std::vector<double>> gradients() const;

 private:
  TrainingRun run_;
  std::unique_ptr<Device> device_;
  OpTable ops_;
  ResolvedRun resolved_;
  std::unique_ptr<Engine> engine_;
  std::vector<StepResult> results_;
};

/// ‖a − b‖ / ‖b‖ of the parameter with the largest error.
double worst_distance(const std::vector<std::vector<double>>& a,
                      const std::vector<std::vector<double>>& b);

}  // namespace viaduct::test
