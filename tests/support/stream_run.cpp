#include "support/stream_run.h"

#include <mutex>
#include <random>

#include "comm/staged_communicator.h"
#include "engine/engine.h"
#include "run/launch.h"
#include "run/parallel_settings.h"
#include "run/rank_device.h"
#include "sharding/run_cursor.h"
#include "support/scaled_ops.h"
#include "support/stream_device.h"
#include "support/stream_memory.h"
#include "support/stream_ops.h"

namespace viaduct::test {
namespace {

/// Rows of two documents each; some tokens are not scored.
HostBatch make_rows(const RunSetup& setup, uint64_t number) {
  std::mt19937_64 random(number);
  const int64_t rows = setup.config.train.micro_batch_rows(),
                length = setup.config.model.seq_length.value();
  const auto vocabulary = static_cast<uint64_t>(setup.model.vocabulary);
  HostBatch batch;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t t = 0; t < length; ++t) {
      if (t == length / 2) batch.end_document();
      const bool scored = random() % 7 != 0;
      batch.ids.push_back(static_cast<int32_t>(random() % vocabulary));
      batch.positions.push_back(static_cast<int32_t>(t % (length / 2)));
      batch.targets.push_back(scored ? static_cast<int32_t>(random() % vocabulary) : -1);
      batch.loss_weight.push_back(scored ? 1.0f : 0.0f);
      batch.token_index.push_back((static_cast<int64_t>(number) * rows + row) * length + t);
    }
    batch.end_document();
  }
  return batch;
}

std::string bytes_on_host(Device& device, const Tensor& tensor) {
  if (!tensor) return "";
  const Tensor host = host_tensor(tensor.dtype(), tensor.shape());
  device.copy_to_host(tensor, host);
  return {static_cast<const char*>(host.raw()), static_cast<size_t>(host.bytes())};
}

void append(std::string& state, double value) {
  state.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Every unit of every block is offloaded.
SavedPolicy offloading(int64_t blocks) {
  SavedPolicy policy;
  for (int64_t block = 0; block < blocks; ++block)
    for (const std::string_view unit : kUnits) policy.set(block, unit, UnitPolicy::offload);
  return policy;
}

/// `second`: the second memory for saved values; null: they are kept.
std::string train(const StreamRun& run, const RunSetup& setup, ResolvedRun resolved, Device& device,
                  const OpTable& ops, std::shared_ptr<Communicator> world, SecondMemory* second) {
  world->record_on(&device);
  const ParallelGroups groups(resolved.parallelism.mesh, world);
  const auto data_rank = static_cast<uint64_t>(groups.dp().rank());
  if (second != nullptr) resolved.memory.saved_policy = offloading(setup.model.layers);
  if (device.has_side_streams() && run.steps_before_graph > 0)
    resolved.steps_before_graph = run.steps_before_graph;
  resolved.layer_graphs = run.layer_graphs;
  Engine engine(device, ops, setup.model, resolved, groups);
  if (second != nullptr) engine.offload_to(*second);
  engine.initialize();
  std::string state;
  const int64_t count = micro_batches(setup.config);
  const auto evaluate = [&] {
    append(state, engine.evaluate(count, [&](int64_t i) {
      return make_rows(setup, 100'000 + data_rank * 100 + static_cast<uint64_t>(i));
    }));
  };
  for (int step = 0; step < run.steps; ++step) {
    StepInputs inputs;
    inputs.update = step + 1;
    inputs.learning_rate = 1e-2;
    engine.begin_step(inputs);
    double scored = 0;
    engine.run_micro_batches(count, [&](int64_t i) {
      const auto first = static_cast<uint64_t>(step) * 1000 + data_rank * 100;
      HostBatch rows = make_rows(setup, first + static_cast<uint64_t>(i));
      scored += rows.scored_weight();
      return rows;
    });
    const StepResult result = engine.finish_step(scored);
    append(state, result.loss);
    append(state, result.grad_norm);
    if (!run.evaluates_between || step != 1) continue;
    evaluate();
    engine.store().finish_gathers();  // as a reader of all weights does
  }
  evaluate();
  engine.store().finish_gathers();
  for (const Parameter* p : engine.store().parameters())
    state += bytes_on_host(device, engine.store().weight(*p));
  RunCursor cursor(engine.store().offloaded(), RunCursor::Access::read);
  for (const ShardRun& shard : engine.store().shard_runs())
    state += bytes_on_host(device, cursor.at(shard).master);
  return state;
}

}  // namespace

StreamOutcome train_on_streams(const StreamRun& run, std::optional<uint64_t> seed) {
  const RunSetup setup =
      setup_of(tiny_run() +
               Overrides{"dist.threads_per_rank=1", "train.global_batch_size=4",
                         "train.micro_batch_size=1", "dist.distributed_timeout_minutes=1"} +
               run.layout);
  const ResolvedRun resolved = resolve_run(setup.config, setup.model);
  StreamOutcome outcome;
  outcome.states.resize(static_cast<size_t>(resolved.parallelism.mesh.ranks()));
  std::mutex mutex;
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const auto me = static_cast<size_t>(world->rank());
    if (!seed) {
      const RankDevice rank = make_rank_device(setup.config.dist);
      outcome.states[me] = train(run, setup, resolved, *rank.device, rank.ops, world, nullptr);
      return;
    }
    if (run.device) {
      const RankDevice rank = run.device(*seed, world->rank());
      if (world->size() > 1) world = run.world ? run.world(world) : make_staged_communicator(world);
      outcome.states[me] = train(run, setup, resolved, *rank.device, rank.ops, world, nullptr);
      return;
    }
    const CpuIsa isa = cpu_isa_of(setup.config.dist);
    const OpTable kernels = run.scaled ? scaled_ops(ScaledValues::exact, isa) : cpu_ops(isa);
    StreamDevice device(*seed * 100 + me, kernels, run.patience_seconds);
    const OpTable ops = queued(kernels);
    StreamMemory second(device);
    outcome.states[me] =
        train(run, setup, resolved, device, ops, queued(world), run.offload ? &second : nullptr);
    device.finish();
    const std::lock_guard lock(mutex);
    outcome.offloaded += second.puts();
    outcome.out_of_order += device.out_of_order();
  });
  return outcome;
}

}  // namespace viaduct::test
