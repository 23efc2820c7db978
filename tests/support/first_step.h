#pragma once
// The first step of a run on all its ranks, without the update: what layouts of the same rows are
// compared by.

#include <map>
#include <string>

#include "base/function_ref.h"
#include "engine/engine.h"
#include "run/setup.h"
#include "tensor/tensor.h"
#include "train/training_data.h"

namespace viaduct::test {

/// "loss", "grad_norm" and the gradients of the whole model by name; in host memory.
using StepTensors = std::map<std::string, Tensor>;

/// Runs a rank's micro-batches of the first global batch and returns their scored weight. Called on
/// all ranks, each a thread.
using RunBatches = FunctionRef<double(Engine& engine, const TrainingData& data)>;

StepTensors first_step(const RunSetup& setup, RunBatches run_batches);
/// With the micro-batches of rows that training runs.
StepTensors first_step(const RunSetup& setup);

/// The same names, and the relative error of each value at most 2e-5: FP32 sums in another order.
/// `what` is added to a failure.
void expect_same_step(const StepTensors& found, const StepTensors& reference,
                      const std::string& what = "");

}  // namespace viaduct::test
