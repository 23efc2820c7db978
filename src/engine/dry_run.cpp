#include "engine/dry_run.h"

#include <algorithm>
#include <optional>

#include "base/function_ref.h"
#include "engine/document_batches.h"
#include "engine/engine.h"
#include "engine/evaluation.h"
#include "model/flops.h"
#include "run/parallel_settings.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "run/run_length.h"

namespace viaduct {
namespace {

/// A micro-batch of the right sizes.
HostBatch blank_batch(int64_t rows, int64_t length) {
  HostBatch batch;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t t = 0; t < length; ++t) {
      batch.ids.push_back(0);
      batch.positions.push_back(static_cast<int32_t>(t));
      batch.targets.push_back(0);
      batch.loss_weight.push_back(1);
      batch.token_index.push_back(row * length + t);
    }
    batch.end_document();
  }
  return batch;
}

std::vector<GroupTraffic> traffic_since(const StepRecord& record, size_t first) {
  std::map<std::pair<std::string, std::string>, GroupTraffic> sums;
  for (size_t i = first; i < record.collectives().size(); ++i) {
    const CollectiveRecord& one = record.collectives()[i];
    if (one.ranks == 1) continue;  // nothing moves
    GroupTraffic& sum = sums[{one.group, one.operation}];
    sum.group = one.group;
    sum.operation = one.operation;
    sum.ranks = one.ranks;
    ++sum.count;
    sum.bytes += one.bytes;
    sum.wire_bytes += one.wire_bytes;
  }
  std::vector<GroupTraffic> traffic;
  for (auto& [names, sum] : sums) traffic.push_back(std::move(sum));
  return traffic;
}

/// Micro-batches of an evaluation that go through the stages at once.
int64_t evaluated_together(const RunConfig& config) {
  const int64_t most = evaluated_at_once(config.parallel.pipeline_model_parallel_size);
  const bool all = config.validation.full_validation || config.validation.eval_iters == 0;
  return all ? most : std::min(most, config.validation.eval_iters * micro_batches(config));
}

}  // namespace

void run_blank_batches(const RunSetup& setup, Engine& engine) {
  const RunConfig& config = setup.config;
  const int64_t length = config.model.seq_length.value();
  if (!config.context_parallel.hybrid_context_parallel) {
    engine.run_micro_batches(micro_batches(config), [&](int64_t) {
      return blank_batch(config.train.micro_batch_size, length);
    });
    return;
  }
  DocumentBatches documents(setup, engine.groups());
  const auto rows = static_cast<size_t>(batch_schedule(config).full());
  documents.share(std::vector(rows, std::vector{static_cast<int32_t>(length)}));
  const auto blank_row = [&](int64_t) { return blank_batch(1, length); };
  engine.run_micro_batches(documents.count(),
                           [&](int64_t i) { return documents.batch(i, blank_row); });
}

DryRun dry_run(const RunSetup& setup, GlobalRank place, StepRecord* kept, bool with_evaluation) {
  const RunConfig& config = setup.config;
  const RankDevice rank = make_dry_run_device(config.dist);
  StepRecord own;
  StepRecord& record = kept != nullptr ? *kept : own;
  rank.device->set_record(&record);
  DryRun result{.rank = place};
  const auto in_window = [&](MemorySequence sequence, FunctionRef<void()> work) {
    SequenceWindow& window = result.windows[static_cast<size_t>(sequence)];
    window.begin = record.position();
    work();
    window.end = record.position();
  };
  {
    const ResolvedRun run = resolve_run(config, setup.model);
    const auto world = make_sim_communicator(place.value, run.parallelism.mesh.ranks(), "world");
    world->record_on(rank.device.get());
    std::optional<Engine> built;
    in_window(MemorySequence::setup, [&] {
      built.emplace(*rank.device, rank.ops, setup.model, run,
                    ParallelGroups(run.parallelism.mesh, world));
    });
    Engine& engine = *built;
    in_window(MemorySequence::initialize, [&] { engine.initialize(); });
    for (const Parameter* parameter : engine.store().parameters()) {
      for (const Part& part : parameter->parts)
        result.tensors[part.name] = part.logical_shape.elements();
    }
    for (const auto& [name, elements] : result.tensors) result.parameters += elements;
    const int64_t length = config.model.seq_length.value();
    const auto step = [&] {
      engine.begin_step({});
      run_blank_batches(setup, engine);
      engine.finish_step(1);
    };
    // The first step does not yet gather what an update before it left to be gathered.
    if (!config.train.skip_train) step();
    const size_t first_op = record.ops().size(), first_collective = record.collectives().size(),
                 first_read = record.host_reads().size();
    const SlotMemory* second = config.train.skip_train ? nullptr : engine.second_memory();
    const OffloadCounts before = second == nullptr ? OffloadCounts() : second->counts();
    if (!config.train.skip_train) in_window(MemorySequence::step, step);
    if (second != nullptr) result.offload = second->counts() - before;
    for (size_t i = first_op; i < record.ops().size(); ++i) {
      result.cost += record.ops()[i].cost;
      result.launches += record.ops()[i].launches;
    }
    result.traffic = traffic_since(record, first_collective);
    result.host_reads = static_cast<int64_t>(record.host_reads().size() - first_read);
    if (with_evaluation || config.train.skip_train) {
      const int64_t count = evaluated_together(config);
      in_window(MemorySequence::evaluate, [&] {
        engine.evaluate(
            count, [&](int64_t) { return blank_batch(config.train.micro_batch_size, length); });
      });
    }
    result.peak = record.peak();
    result.model_flops =
        training_flops(flop_sizes(setup.model), batch_schedule(config).full(), length).model();
  }
  rank.device->set_record(nullptr);
  return result;
}

std::vector<DryRun> dry_run_stages(const RunSetup& setup) {
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  std::vector<DryRun> stages;
  for (const GlobalRank first : run.parallelism.mesh.group({0}, {Axis::pp}))
    stages.push_back(dry_run(setup, first));
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
