#pragma once
// A small model whose segments pass on more than the residual stream: `scores` [T, 1], with a
// gradient, made by block 1, read and replaced by block 4 and read by the head; and i64 `labels`
// [T], without a gradient, made by the embedding, which bypass all blocks. It computes on the host
// and records its computations.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/model_stage.h"
#include "ops/table.h"
#include "pipeline/executor.h"
#include "pipeline/schedule.h"
#include "support/no_weights.h"

namespace viaduct::test {

inline constexpr int64_t kPassingBlocks = 8, kPassingHidden = 4;

/// By segment path: its outputs in the forwards, by micro-batch, and the gradient of its weight.
struct PassingNotes {
  std::map<std::pair<std::string, int64_t>, std::vector<float>> outputs;
  std::map<std::string, double> gradients;
  bool operator==(const PassingNotes&) const = default;
};

/// The part of virtual stage `stage` of `stages`, which divide the blocks. `notes` must outlive it.
ModelChunk passing_chunk(int stage, int stages, PassingNotes& notes);
std::unique_ptr<Model> passing_model(std::vector<ModelChunk> chunks);

/// Micro-batches differ in their number of tokens.
int64_t passing_tokens(int64_t micro_batch);
Batch passing_batch(int64_t micro_batch);
/// The same as a callable that outlives every stage.
inline constexpr auto kPassingBatches = [](int64_t i) { return passing_batch(i); };

/// A rank's environment to run it.
class PassingRank {
 public:
  PassingRank();
  RankContext& context() { return context_; }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_;
  OpTable ops_;
  NoWeights weights_;
  ParallelGroups groups_ = self_groups();
  LayerSettings settings_{.precision = precision_recipe("fp32")};
  RankContext context_;
};

struct PassingRun {
  ScheduleSettings schedule;
  DType message_format = DType::f32;
  ExecutorSettings executor = {};
  SavedPolicy policy = {};
};
struct PassingOutcome {
  PassingNotes notes;               // of all ranks
  std::vector<int64_t> sent_bytes;  // by rank
};
/// Runs a step on pp ranks that are threads.
PassingOutcome run_passing_model(const PassingRun& run);

}  // namespace viaduct::test
