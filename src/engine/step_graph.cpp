#include "engine/step_graph.h"

namespace viaduct {

void StepGraph::set_input(size_t i, FunctionRef<Batch(const Batch* over)> upload) {
  if (i < inputs_.size()) {
    const std::vector<Shape> before = shapes(i + 1);
    inputs_[i] = upload(&inputs_[i]);
    if (shapes(i + 1) != before) graph_ = nullptr;  // what it reads may be elsewhere now
  } else {
    inputs_.push_back(upload(nullptr));
  }
}

std::vector<StepGraph::Shape> StepGraph::shapes(size_t micro_batches) const {
  std::vector<Shape> list;
  for (size_t i = 0; i < micro_batches; ++i) {
    const Batch& batch = inputs_[i];
    const Tensor& chunks = batch.chunks.offsets;
    list.push_back({batch.tokens(), batch.document_offsets.dim(0) - 1, batch.max_document,
                    chunks ? chunks.dim(0) - 1 : 0, batch.chunks.longest});
  }
  return list;
}

bool StepGraph::run(size_t micro_batches, FunctionRef<void()> program) {
  if (!device_.executes()) {
    StepRecord* const record = device_.record();
    if (record == nullptr) {
      program();
      return true;
    }
    OpEntryRecord launch{.op = "graph", .kernel = "captured work", .cost = {}};
    launch.stream_position = device_.launched(kComputeStream);
    record->op(std::move(launch));
    record->set_in_graph(true);
    program();
    record->set_in_graph(false);
    return true;
  }
  if (to_run_ > 0) {
    --to_run_;
    program();
    return true;
  }
  const std::vector<Shape> now = shapes(micro_batches);
  const bool captures = graph_ == nullptr || captured_ != now;
  if (captures) {
    graph_ = nullptr;
    graph_ = device_.capture(program);
    captured_ = now;
  }
  device_.launch(*graph_);
  return captures;
}

}  // namespace viaduct
