#include "engine/dry_run.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "base/function_ref.h"
#include "checkpoint/parameter_io.h"
#include "device/recording.h"
#include "engine/document_batches.h"
#include "engine/encoder_batch.h"
#include "engine/engine.h"
#include "engine/evaluation.h"
#include "model/flops.h"
#include "nn/quantization_log.h"
#include "run/parallel_settings.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "run/run_length.h"
#include "run/vision_support.h"
#include "timeline/record_expansion.h"
#include "timeline/repeats.h"

namespace viaduct {
namespace {

/// The documents of a row of the run, in tokens: typical ones where rows hold conversations. A plan
/// may look at shorter rows than those of the run.
std::vector<int32_t> row_documents(const RunSetup& setup) {
  auto left = static_cast<int32_t>(setup.config.model.seq_length.value());
  if (!setup.conversations) return {left};
  std::vector<int32_t> documents;
  for (const int32_t length : setup.conversations->row_documents) {
    if (left == 0) break;
    documents.push_back(std::min(length, left));
    left -= documents.back();
  }
  // Memory is planned for the row with the most documents; empty ones take no time.
  const auto most = static_cast<size_t>(setup.conversations->most_documents);
  const bool shared = setup.config.context_parallel.hybrid_context_parallel;
  if (!shared && documents.size() < most) documents.resize(most, 0);
  return documents;
}

/// Of a step, without padding of rows.
double model_flops(const RunSetup& setup) {
  const FlopSizes sizes = flop_sizes(setup.model, setup.config.peft.resolved);
  const int64_t rows = batch_schedule(setup.config).full(),
                length = setup.config.model.seq_length.value();
  const double of_images = static_cast<double>(rows * images_of_row(setup)) *
                           image_flops(setup.model, setup.config.peft.resolved);
  if (!setup.conversations) return training_flops(sizes, rows, length).model() + of_images;
  std::vector<int64_t> lengths(setup.conversations->row_documents.begin(),
                               setup.conversations->row_documents.end());
  if (setup.conversations->ends_with_padding) lengths.pop_back();
  return static_cast<double>(rows) * training_flops(sizes, lengths).model() + of_images;
}

/// Adds the encoder's rows, of `length` places, to a micro-batch of so many rows.
void add_blank_encoder(int64_t rows, int64_t length, bool executes, HostBatch& batch) {
  const std::vector<int32_t> blank(static_cast<size_t>(executes ? length : 0), 0);
  for (int64_t row = 0; row < rows; ++row) {
    if (executes) {
      append_encoder_row(blank, length, row, batch);
      continue;
    }
    if (batch.encoder == nullptr) batch.encoder = std::make_shared<HostBatch>();
    batch.encoder->sizes_only = true;
    batch.encoder_document.push_back(static_cast<int32_t>(2 * row));
    for (const int64_t tokens : {length, int64_t{0}}) batch.encoder->add_document_of(tokens);
  }
}

/// Puts `count` images at the begin of each row of `length` places.
void add_blank_images(int64_t rows, int64_t length, int64_t count, const ImageRowSettings& images,
                      HostBatch& batch) {
  if (count == 0) return;
  batch.images = {rows * count, images.channels, images.side, images.side, {}};
  if (batch.sizes_only) return;
  batch.images.pixels.resize(
      static_cast<size_t>(batch.images.count * images.channels * images.side * images.side), 0.0f);
  for (int64_t row = 0; row < rows; ++row)
    std::fill_n(batch.ids.begin() + row * length, count * images.rows, images.token);
}

/// A micro-batch of the right sizes; with content only where something is computed.
HostBatch blank_rows_of(int64_t rows, const std::vector<int32_t>& documents,
                        const EncoderConfig& encoder, int32_t token, bool executes) {
  HostBatch batch;
  if (!executes) {
    batch.sizes_only = true;
    for (int64_t row = 0; row < rows; ++row)
      for (const int32_t length : documents) batch.add_document_of(length);
    if (encoder.any()) add_blank_encoder(rows, encoder.row_length, executes, batch);
    return batch;
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (const int32_t length : documents) {
      for (int32_t t = 0; t < length; ++t) {
        batch.token_index.push_back(batch.tokens());
        batch.ids.push_back(token);
        batch.positions.push_back(t);
        batch.targets.push_back(0);
        batch.loss_weight.push_back(1);
      }
      batch.end_document();
    }
  }
  if (encoder.any()) add_blank_encoder(rows, encoder.row_length, executes, batch);
  return batch;
}

/// The same for a run's model.
HostBatch blank_batch(const RunSetup& setup, int64_t rows, const std::vector<int32_t>& documents,
                      bool executes) {
  const auto& images = setup.config.dataset.images;
  const int32_t token = images ? images->other_token() : 0;  // of text
  HostBatch batch = blank_rows_of(rows, documents, setup.model.encoder, token, executes);
  if (images)
    add_blank_images(rows, std::accumulate(documents.begin(), documents.end(), int64_t{0}),
                     images_of_row(setup), *images, batch);
  return batch;
}

/// The cost of an op that is called so many times.
Cost repeated(Cost cost, int64_t times) {
  for (double& flops : cost.flops) flops *= static_cast<double>(times);
  cost.bytes_read *= times;
  cost.bytes_written *= times;
  return cost;
}

/// The sums over one step.
void sum_up(const RecordExpansion& all, DryRun& result) {
  const StepRecord& record = all.record();
  const SequenceWindow& step = result.windows[static_cast<size_t>(MemorySequence::step)];
  std::vector<int64_t> launched(record.collectives().size());
  std::map<std::pair<std::string_view, std::string_view>, KernelUse> kernels;
  std::vector<KernelUse*> kernel_of(record.ops().size());  // found at the first event of an op
  all.for_each_repeated(step.begin, step.end, [&](const RecordEvent& event, int64_t times) {
    const auto index = static_cast<size_t>(event.index);
    if (event.kind == RecordEventKind::op) {
      const OpEntryRecord& one = record.ops()[index];
      if (kernel_of[index] == nullptr) kernel_of[index] = &kernels[{one.op, one.kernel}];
      KernelUse& use = *kernel_of[index];
      use.calls += times;
      use.launches += times * one.host_launches();
      use.workspace_bytes = std::max(use.workspace_bytes, one.workspace_bytes);
      use.cost += repeated(one.cost, times);
    } else if (event.kind == RecordEventKind::host_read) {
      result.host_reads += times;
    } else if (event.kind == RecordEventKind::launch) {
      launched[index] += times;
    }
  });
  for (auto& [names, use] : kernels) {
    use.op = names.first, use.kernel = names.second;
    result.cost += use.cost;
    result.launches += use.launches;
    result.kernels.push_back(std::move(use));
  }
  std::map<std::pair<std::string, std::string_view>, GroupTraffic> sums;
  for (size_t i = 0; i < launched.size(); ++i) {
    const CollectiveRecord& one = record.collectives()[i];
    if (launched[i] == 0 || one.ranks == 1) continue;  // not of the step, or nothing moves
    GroupTraffic& sum = sums[{one.group, choice_name(one.operation)}];
    sum.group = one.group;
    sum.operation = one.operation;
    sum.ranks = one.ranks;
    sum.count += launched[i];
    sum.bytes += launched[i] * one.bytes;
    sum.wire_bytes += launched[i] * one.wire_bytes;
  }
  for (auto& [names, sum] : sums) result.traffic.push_back(std::move(sum));
}

/// Bytes held right before the event at `position`.
int64_t held_before(const StepRecord& record, int64_t position) {
  int64_t bytes = 0;
  for (const AllocationRecord& a : record.allocations()) {
    if (a.allocated_at < position && (a.released_at < 0 || a.released_at >= position))
      bytes += a.bytes;
  }
  return bytes;
}

int64_t instances_of(const StepActions& step) {
  std::set<int64_t> left_out;
  for (const ActionRecord& action : step.actions)
    if (!action.ran()) left_out.insert(action.micro_batch);
  return static_cast<int64_t>(left_out.size());
}

/// Micro-batches of an evaluation that pass through the stages together.
int64_t evaluated_together(const RunConfig& config) {
  const int64_t most = evaluated_at_once(config.parallel.stages());
  const bool all = config.validation.full_validation || config.validation.eval_iters == 0;
  return all ? most : std::min(most, config.validation.eval_iters * micro_batches(config));
}

/// The fewest micro-batches with which a step can be scheduled as with `count`.
int64_t fewest_micro_batches(const ResolvedRun& run, int64_t count) {
  const ScheduleSettings& schedule = run.parallelism.schedule;
  if (run.steps_before_graph || schedule.deferred_heads > 0) return count;
  // Chunks go round the stages behind an encoder's own.
  const int64_t stages = run.parallelism.stage_order().behind();
  const int64_t group = std::max(stages, schedule.group);
  return std::min(count, schedule.kind == ScheduleKind::dualpipe_v ? 2 * stages : group);
}

/// Bytes of what a rank saves of these runs, of which `copies` ranks hold copies.
int64_t saved_bytes(const std::vector<StoredRun>& runs, const Communicator& copies, bool spread) {
  int64_t bytes = 0;
  for (const StoredRun& stored : spread ? share_of_copies(runs, copies.rank(), copies.size())
                                 : copies.rank() == 0 ? runs
                                                      : std::vector<StoredRun>()) {
    for (const LogicalPiece& piece : logical_pieces(stored.run)) {
      if (piece.part->owned) bytes += piece.piece.elements() * dtype_bytes(exact_format(stored));
    }
  }
  return bytes;
}

/// As train/run_checkpoint.h stages it.
int64_t save_copy_bytes(const CheckpointConfig& config, Engine& engine) {
  const Communicator& copies = engine.store().copies_of_runs();
  const bool spread = config.fully_parallel_save;
  int64_t bytes = saved_bytes(
      stored_runs(engine.store(), [](const ShardRun& run, size_t) { return run.master_state(); }),
      copies, spread);
  if (!config.save_optim || engine.optimizer() == nullptr) return bytes;
  for (const OptimizerState& state : engine.optimizer()->states()) {
    std::vector<StoredRun> runs;
    if (state.shape != nullptr) {
      for (const SharedState& of : state.shared)
        if (of.saved) runs.push_back({whole_run(*of.description), of.values});
    } else {
      runs = stored_runs(engine.store(), [&](const ShardRun&, size_t i) { return state.runs[i]; });
      std::erase_if(runs, [](const StoredRun& stored) { return !stored.state.values; });
    }
    bytes += saved_bytes(runs, copies, spread);
  }
  return bytes;
}

/// What a rank's dry run recorded.
struct Recorded {
  StepRecord record;
  ActionLog log;
  DryRun run;  // without sums
};

/// `repeats`: micro-batches that repeat others are left out. The record ends with the engine. The
/// deadline is asked for at each op and each allocation that is recorded.
void record_rank(const RunSetup& setup, GlobalRank place, bool with_evaluation, bool repeats,
                 const DryRunLimits& limits, Recorded& recorded) {
  const RunConfig& config = setup.config;
  const RankDevice rank = make_dry_run_device(config);
  StepRecord& record = recorded.record;
  DryRun& result = recorded.run;
  result.rank = place;
  const Recording recording(*rank.device, record);
  record.give_up_at(limits.deadline);
  const auto in_window = [&](MemorySequence sequence, FunctionRef<void()> work) {
    SequenceWindow& window = result.windows[static_cast<size_t>(sequence)];
    window.begin = record.position();
    work();
    window.end = record.position();
  };
  const ResolvedRun run = resolve_run(config, setup.model);
  const auto world = make_sim_communicator(place.value, run.parallelism.mesh.ranks(), "world");
  world->record_on(rank.device.get());
  std::optional<Engine> built;
  in_window(MemorySequence::setup, [&] {
    built.emplace(*rank.device, rank.ops, setup.model, run, make_groups(run, world));
  });
  Engine& engine = *built;
  if (repeats) engine.leave_out_repeats(recorded.log);
  in_window(MemorySequence::initialize, [&] { engine.initialize(); });
  for (const Parameter* parameter : engine.store().parameters()) {
    for (const Part& part : parameter->parts) {
      const int64_t elements = part.logical_shape.elements();
      const bool first = result.tensors.emplace(part.name, elements).second;
      if (first && parameter->trained) result.trained_parameters += elements;
    }
  }
  for (const auto& [name, elements] : result.tensors) result.parameters += elements;
  if (config.checkpoint.save && config.checkpoint.async_save && !config.train.skip_train)
    result.save_copy_bytes = save_copy_bytes(config.checkpoint, engine);
  const auto step = [&](int64_t count) {
    engine.begin_step({});
    run_blank_batches(setup, engine, count);
    engine.finish_step(1);
  };
  const int64_t count = micro_batches(config);
  // The first step does not yet gather what an update before it left to be gathered.
  if (!config.train.skip_train)
    step(limits.short_first_step ? fewest_micro_batches(run, count) : count);
  // Some steps also measure operands, in memory that the others do not need.
  QuantizationLog measured;
  if (config.tensor_inspect.enabled && !config.train.skip_train &&
      precision_recipe(config.mixed_precision).products.any()) {
    engine.inspect(&measured);
    step(count);
    measured.read(*rank.device);
    engine.inspect(nullptr);
  }
  const SlotMemory* second = config.train.skip_train ? nullptr : engine.second_memory();
  const OffloadCounts before = second == nullptr ? OffloadCounts() : second->counts();
  if (!config.train.skip_train) in_window(MemorySequence::step, [&] { step(count); });
  if (second != nullptr) result.offload = second->counts() - before;
  if (with_evaluation || config.train.skip_train) {
    in_window(MemorySequence::evaluate, [&] {
      engine.evaluate(evaluated_together(config), [&](int64_t) {
        return blank_batch(setup, config.train.micro_batch_rows(), row_documents(setup), false);
      });
    });
  }
  result.model_flops = model_flops(setup);
  record.give_up_at({});  // what is made of it afterwards has its own time
}

}  // namespace

void run_blank_batches(const RunSetup& setup, Engine& engine, std::optional<int64_t> count) {
  const RunConfig& config = setup.config;
  const std::vector<int32_t> of_row = row_documents(setup);
  const bool executes = engine.device().executes();
  if (!config.context_parallel.hybrid_context_parallel) {
    const HostBatch blank = blank_batch(setup, config.train.micro_batch_rows(), of_row, executes);
    engine.run_micro_batches(count.value_or(micro_batches(config)), [&](int64_t) { return blank; });
    return;
  }
  DocumentBatches documents(setup, engine.groups());
  const auto rows = static_cast<size_t>(batch_schedule(config).full());
  documents.share(std::vector(rows, of_row));
  const auto blank_row = [&](int64_t) { return blank_batch(setup, 1, of_row, executes); };
  engine.run_micro_batches(documents.count(),
                           [&](int64_t i) { return documents.batch(i, blank_row); });
}

DryRun dry_run(const RunSetup& setup, GlobalRank rank, StepRecord* kept, bool with_evaluation,
               bool in_full, const DryRunLimits& limits) {
  const auto full = [&] { return dry_run(setup, rank, kept, with_evaluation, true, limits); };
  // Shared documents give each micro-batch a shape of its own.
  const bool repeats = !in_full && !setup.config.context_parallel.hybrid_context_parallel;
  Recorded recorded;
  recorded.record.set_with_shapes(kept != nullptr && kept->with_shapes());
  // Sums and the peak do not need them.
  recorded.record.set_with_stream_calls(repeats && kept != nullptr);
  recorded.record.set_with_library_calls(setup.config.dist.on_cuda());
  record_rank(setup, rank, with_evaluation, repeats, limits, recorded);
  limits.deadline.check("dry run of a rank");
  if (against_repeats(recorded.record, recorded.log)) return full();
  DryRun result = std::move(recorded.run);
  result.library_calls = recorded.record.library_calls();
  result.bytes_after =
      held_before(recorded.record, result.windows[static_cast<size_t>(MemorySequence::step)].end);
  const RecordExpansion all(recorded.record, recorded.log);
  sum_up(all, result);
  if (!recorded.log.empty()) result.instances = instances_of(recorded.log.back());
  if (kept == nullptr || result.instances == 0) {
    result.peak = all.peak();
    if (kept != nullptr) *kept = std::move(recorded.record);
    return result;
  }
  ExpandedRecord whole = expanded(all);
  if (whole.against) return full();
  for (SequenceWindow& window : result.windows)
    window = {whole.positions[static_cast<size_t>(window.begin)],
              whole.positions[static_cast<size_t>(window.end)]};
  *kept = std::move(whole.record);
  result.peak = kept->peak();
  return result;
}

std::vector<DryRun> dry_run_stages(const RunSetup& setup, const Deadline& deadline) {
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  std::vector<DryRun> stages;
  for (const GlobalRank first : run.parallelism.mesh.at_each_stage({0}))
    stages.push_back(dry_run(setup, first, nullptr, false, false, {deadline}));
  return stages;
}

int64_t model_parameters(const std::vector<DryRun>& stages) {
  std::map<std::string, int64_t> tensors;
  for (const DryRun& stage : stages) tensors.insert(stage.tensors.begin(), stage.tensors.end());
  int64_t sum = 0;
  for (const auto& [name, elements] : tensors) sum += elements;
  return sum;
}

}  // namespace viaduct
