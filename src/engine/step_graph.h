#pragma once
// Forward and backward of a step as one launch. After the first steps the work of a step is
// captured into a graph of the device, and later steps of the same shapes launch it. The rows of a
// step are in memory that stays allocated; everything else that differs from step to step is read
// from the
// device's memory (StepScalars) or belongs to parts of the step that are not captured (the update).

#include <memory>
#include <vector>

#include "base/function_ref.h"
#include "device/device.h"
#include "nn/batch.h"

namespace viaduct {

class StepGraph {
 public:
  /// `device` outlives it.
  StepGraph(Device& device, int64_t steps_before) : device_(device), to_run_(steps_before) {}

  /// The rows of micro-batch `i`; `upload(over)` copies them to the device, over those of the step
  /// before (null: there are none).
  void set_input(size_t i, FunctionRef<Batch(const Batch* over)> upload);
  const Batch& input(size_t i) const { return inputs_[i]; }

  /// Does the work of `program`, forward and backward of the first `micro_batches` inputs: by
  /// running it, or by a graph of an earlier run of it. False if it was not run, so that the host's
  /// own records of the step were not made. On a device that executes nothing it runs, and its ops
  /// are recorded as a graph's.
  bool run(size_t micro_batches, FunctionRef<void()> program);

 private:
  /// What launches depend on in addition to addresses.
  struct Shape {
    int64_t tokens = 0, documents = 0, longest = 0;
    int64_t chunks = 0, longest_chunk = 0;
    bool operator==(const Shape&) const = default;
  };
  std::vector<Shape> shapes(size_t micro_batches) const;

  Device& device_;
  int64_t to_run_;  // steps before the capture
  std::vector<Batch> inputs_;
  std::vector<Shape> captured_;  // of the graph
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace viaduct
