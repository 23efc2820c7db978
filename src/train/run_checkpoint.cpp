#include "train/run_checkpoint.h"

#include <fmt/format.h>

#include <bit>

#include "checkpoint/logical_values.h"
#include "checkpoint/parameter_io.h"

namespace viaduct {
namespace {

std::vector<StoredRun> masters(Engine& engine) {
  return stored_runs(engine.store(), [](const ShardRun& run, size_t) { return run.master; });
}
std::vector<StoredRun> first_moments(Engine& engine) {
  return stored_runs(engine.store(), [&](const ShardRun&, size_t i) {
    return engine.optimizer()->moments()[i].first;
  });
}
std::vector<StoredRun> second_moments(Engine& engine) {
  return stored_runs(engine.store(), [&](const ShardRun&, size_t i) {
    return engine.optimizer()->moments()[i].second;
  });
}

}  // namespace

StagedCheckpoint stage_run(Engine& engine, const TrainState& state,
                           std::map<std::string, std::string> files,
                           const std::filesystem::path& save, int64_t keep_last,
                           bool with_optimizer) {
  StagedCheckpoint staged;
  staged.save = save;
  staged.step = state.step;
  staged.state = to_json(state);
  staged.files = std::move(files);
  staged.keep_last = keep_last;
  const Communicator& copies = *engine.groups().dp_cp_outer;  // instances hold the same
  const auto stage = [&](const std::string& prefix, const std::vector<StoredRun>& runs) {
    stage_runs(engine.device(), share_of_copies(runs, copies.rank(), copies.size()), prefix,
               staged);
  };
  stage("", masters(engine));
  if (with_optimizer && engine.optimizer() != nullptr) {
    stage(kFirstMoment, first_moments(engine));
    stage(kSecondMoment, second_moments(engine));
  }
  return staged;
}

std::string first_not_finite(const StagedCheckpoint& staged) {
  for (const auto& [entry, data] : staged.entries) {
    if (data.dtype() != DType::f32 || !data.is_contiguous()) continue;
    // An exponent of all ones is infinity or NaN; counted without a branch, at the speed of memory.
    const float* values = data.data<float>();
    int64_t bad = 0;
    for (int64_t i = 0; i < data.elements(); ++i)
      bad += (std::bit_cast<uint32_t>(values[i]) & 0x7f800000u) == 0x7f800000u;
    if (bad == 0) continue;
    return fmt::format("{} of {} values of tensor \"{}\" are not finite", bad, data.elements(),
                       entry.tensor.name);
  }
  return "";
}

TrainState restore_run(Engine& engine, const CheckpointReader& checkpoint, bool load_optimizer) {
  const TrainState state = train_state_from_json(checkpoint.state(), checkpoint.where());
  OpContext context = engine.context(false, false).ops;
  load_parameters(context, engine.store(), CheckpointWeights(checkpoint), engine.model().config());
  if (!load_optimizer || engine.optimizer() == nullptr) return state;
  fill_runs(engine.device(), first_moments(engine), checkpoint,
            [](const std::string& name) { return kFirstMoment + name; });
  fill_runs(engine.device(), second_moments(engine), checkpoint,
            [](const std::string& name) { return kSecondMoment + name; });
  return state;
}

}  // namespace viaduct
