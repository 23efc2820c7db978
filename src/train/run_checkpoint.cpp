#include "train/run_checkpoint.h"

#include <fmt/format.h>

#include <bit>

#include "checkpoint/logical_values.h"
#include "checkpoint/parameter_io.h"
#include "model/family.h"
#include "model/initialize.h"
#include "train/amax_checkpoint.h"

namespace viaduct {
namespace {

using Cursor = std::shared_ptr<RunCursor>;

Cursor changes(Engine& engine) {
  return std::make_shared<RunCursor>(engine.store().offloaded(), BlockCursor::Access::change);
}

std::vector<StoredRun> masters(Engine& engine, const Cursor& cursor = nullptr) {
  return stored_runs(
      engine.store(), [](const ShardRun& run, size_t) { return run.master_state(); }, cursor);
}
/// Weights that do not train and are the model's own. A run with adapters saves none: its
/// checkpoints have what trains.
std::vector<StoredRun> frozen(Engine& engine) {
  std::vector<StoredRun> runs;
  if (engine.run().layers.adapters.freezes()) return runs;
  for (const ShardRun& run : engine.store().frozen_runs()) {
    StoredRun& stored = runs.emplace_back();
    stored.run = {run.parameter, run.range.begin, run.range.end};
    stored.state = run.master_state();
  }
  return runs;
}
/// Whether this rank saves its frozen weights: data-parallel ranks have copies, or parts.
bool saves_frozen(Engine& engine) {
  const ParameterStore& store = engine.store();
  return store.shards_weights() ? store.copies_of_runs().rank() == 0
                                : engine.groups().dp_cp().rank() == 0;
}
/// Of a state with its own tensors: the tensors that this rank saves, or all.
std::vector<StoredRun> shared_runs(const OptimizerState& state, bool saved_alone = false) {
  std::vector<StoredRun> runs;
  for (const SharedState& of : state.shared)
    if (of.saved || !saved_alone) runs.push_back({whole_run(*of.description), of.values});
  return runs;
}
std::vector<StoredRun> runs_of(Engine& engine, const OptimizerState& state,
                               const Cursor& cursor = nullptr) {
  if (state.shape != nullptr) return shared_runs(state);
  auto runs = stored_runs(
      engine.store(), [&](const ShardRun&, size_t i) { return state.runs[i]; }, cursor);
  for (StoredRun& stored : runs) stored.lifts_zeros = state.lifts_zeros;
  std::erase_if(runs, [](const StoredRun& stored) { return !stored.state.values; });
  return runs;
}

int64_t bytes_of(const std::vector<StoredRun>& runs) {
  int64_t bytes = 0;
  for (const StoredRun& stored : runs)
    bytes += stored.run.elements() * dtype_bytes(exact_format(stored));
  return bytes;
}

/// Fills runs of which every rank of `copies_of_runs` holds copies. Returns the bytes that this
/// rank read.
int64_t load_runs(Engine& engine, const std::vector<StoredRun>& runs, const TensorSource& source,
                  bool spread_copies, Lacking lacking,
                  FunctionRef<std::string(const std::string& name)> name_of) {
  Communicator& copies = engine.store().copies_of_runs();
  const bool spread = spread_copies && copies.size() > 1;
  const std::vector<StoredRun> share =
      spread ? share_of_copies(runs, copies.rank(), copies.size()) : runs;
  fill_runs(engine.device(), share, source, name_of, lacking);
  const std::vector<int> owners =
      spread ? owners_of_copies(runs, copies.size()) : std::vector<int>();
  for (size_t i = 0; i < owners.size(); ++i) {
    if (runs[i].run.elements() == 0) continue;
    const StateValues state = runs[i].here();
    for (const Tensor& tensor : {state.values, state.scales, state.weights})
      if (tensor) copies.broadcast(tensor, owners[i]).wait();
  }
  return bytes_of(share);
}

/// An exponent of all ones is infinity or NaN; counted without a branch, at the speed of memory.
template <class Float, class Bits>
int64_t not_finite(const Tensor& data, Bits exponent) {
  const Float* values = data.data<Float>();
  int64_t bad = 0;
  for (int64_t i = 0; i < data.elements(); ++i)
    bad += (std::bit_cast<Bits>(values[i]) & exponent) == exponent;
  return bad;
}

}  // namespace

std::vector<StoredRun> saved_share(const std::vector<StoredRun>& runs, int rank, int ranks,
                                   bool spread_copies) {
  if (spread_copies) return share_of_copies(runs, rank, ranks);
  return rank == 0 ? runs : std::vector<StoredRun>();
}

StagedCheckpoint stage_run(Engine& engine, const TrainState& state, const StageOptions& options) {
  StagedCheckpoint staged;
  staged.step = state.step;
  staged.state = to_json(state);
  const Communicator& copies = engine.store().copies_of_runs();
  const auto stage = [&](const std::string& prefix, const std::vector<StoredRun>& runs) {
    stage_runs(engine.device(),
               saved_share(runs, copies.rank(), copies.size(), options.spread_copies), prefix,
               staged, options.staging);
  };
  stage("", masters(engine));
  if (saves_frozen(engine))
    stage_runs(engine.device(), frozen(engine), "", staged, options.staging);
  if (options.optimizer && engine.optimizer() != nullptr) {
    for (const OptimizerState& state : engine.optimizer()->states())
      stage(state.prefix,
            state.shape != nullptr ? shared_runs(state, true) : runs_of(engine, state));
  }
  stage_amax(engine, staged);
  return staged;
}

std::string first_not_finite(const StagedCheckpoint& staged) {
  for (const auto& staged_entry : staged.entries) {
    const CheckpointEntry& entry = staged_entry.entry;
    const Tensor data = staged_entry.values();
    if (!data.is_contiguous()) continue;
    const int64_t bad = data.dtype() == DType::f32   ? not_finite<float>(data, 0x7f800000u)
                        : data.dtype() == DType::f64 ? not_finite<double>(data, 0x7ffull << 52)
                                                     : 0;
    if (bad == 0) continue;
    return fmt::format("{} of {} values of tensor \"{}\" {} not finite", bad, data.elements(),
                       entry.tensor.name, bad == 1 ? "is" : "are");
  }
  return "";
}

RestoredRun restore_run(Engine& engine, const CheckpointReader& checkpoint,
                        const RestoreOptions& options) {
  RestoredRun restored;
  restored.state = train_state_from_json(checkpoint.state(), checkpoint.where());
  std::vector<OptimizerState> states;
  if (options.optimizer && engine.optimizer() != nullptr) states = engine.optimizer()->states();
  std::vector<TensorKind> kinds{{""}};
  for (const OptimizerState& state : states)
    kinds.push_back({state.prefix, state.has, state.shape});
  const ModelConfig& model = engine.model().config();
  const TensorFit fit = tensor_fit(model, checkpoint, kinds, engine.run().layers.adapters, false);
  restored.warnings = check_fit(fit, checkpoint.where(), options.strictness);

  const bool log =
      options.strictness == Strictness::log_all || options.strictness == Strictness::log_unexpected;
  if (log && !fit.lacking.empty()) {  // moments are zero already
    OpContext context = engine.context(false, false).ops;
    initialize_parameters(context, engine.store(), engine.run().layers.seed, is_trained);
  }
  const Lacking lacking = log ? Lacking::kept : Lacking::error;
  const TensorNames& names = model_family(model.family).names;
  // The weights that are loaded are quantized with these scales.
  restore_amax(engine, checkpoint);
  const Cursor cursor = changes(engine);
  restored.bytes +=
      load_runs(engine, masters(engine, cursor), checkpoint, options.spread_copies, lacking,
                [&](const std::string& name) { return stored_name(checkpoint, name, names); });
  cursor->finish();
  const std::vector<StoredRun> unchanged = frozen(engine);
  fill_runs(
      engine.device(), unchanged, checkpoint,
      [&](const std::string& name) { return stored_name(checkpoint, name, names); }, lacking);
  restored.bytes += bytes_of(unchanged);
  OpContext context = engine.context(false, false).ops;
  engine.store().publish_masters(context);
  for (const OptimizerState& state : states) {
    restored.bytes +=
        load_runs(engine, runs_of(engine, state, cursor), checkpoint, options.spread_copies,
                  lacking, [&](const std::string& name) { return state.prefix + name; });
    cursor->finish();
  }
  return restored;
}

}  // namespace viaduct
