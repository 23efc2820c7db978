#include "support/program_run.h"

#include <gtest/gtest.h>

#include <mutex>
#include <random>

#include "comm/world.h"
#include "ops/cpu/cpu_ops.h"
#include "pipeline/layer_map.h"
#include "support/instruction_set.h"
#include "support/op_testing.h"

namespace viaduct::test {
namespace {

constexpr int64_t kPositions = 32;

/// Rows of two documents; micro-batches differ in size.
HostBatch micro_batch(int64_t number, int64_t vocabulary) {
  HostBatch batch;
  std::mt19937 random(static_cast<unsigned>(number));
  for (const int64_t length : {5 + number % 3, int64_t{8}}) {
    for (int64_t i = 0; i < length; ++i) {
      batch.ids.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
      batch.positions.push_back(static_cast<int32_t>(i));
      const bool scored = i + 1 < length && random() % 4 != 0;
      batch.targets.push_back(
          scored ? static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)) : -1);
      batch.loss_weight.push_back(scored ? 1.0f : 0.0f);
      batch.token_index.push_back(number * kPositions + batch.tokens() - 1);
    }
    batch.end_document();
  }
  return batch;
}

class Rank {
 public:
  Rank(const ProgramRun& run, std::shared_ptr<Communicator> world)
      : run_(run),
        device_(run.device ? run.device(1) : make_cpu_device(1)),
        ops_(cpu_ops(instruction_set())),
        second_(run.second_memory ? run.second_memory(world->rank()) : nullptr) {
    const ProgramLayout& layout = run.layout;
    world->record_on(device_.get());
    GroupSizes sizes;
    sizes.optimizer_instances = run.ddp.use_distributed_optimizer
                                    ? run.ddp.num_distributed_optimizer_instances
                                    : layout.cp * layout.dp;
    sizes.kv_replicas = std::max(1, layout.tp / static_cast<int>(run.model.kv_heads));
    resolved_.parallelism.mesh = Mesh({layout.tp, layout.cp, 1, layout.dp, layout.pp}).with(sizes);
    auto groups = ParallelGroups(resolved_.parallelism.mesh, world);
    resolved_.layers.precision = precision_recipe(run.recipe);
    resolved_.layers.sequence_parallel = layout.sequence_parallel;
    resolved_.positions = kPositions;
    resolved_.parallelism.layer_map =
        layer_map(LayerMapSettings{run.model.layers, layout.pp, layout.virtual_stages});
    resolved_.parallelism.schedule.kind = layout.kind;
    resolved_.parallelism.schedule.virtual_stages = layout.virtual_stages;
    resolved_.memory.saved_policy = run.policy;
    resolved_.memory.packed_weights = run.packed_weights;
    DdpConfig ddp = run.ddp;
    ddp.resolve(groups.dp_cp().size(), layout.pp > 1 && layout.virtual_stages > 1);
    resolved_.store = store_settings(ddp);
    resolved_.check_for_nan_in_grad = run.ddp.check_for_nan_in_grad;
    engine_.emplace(*device_, ops_, run.model, resolved_, std::move(groups));
    if (second_) engine_->offload_to(*second_);
    engine_->initialize();
  }

  Engine& engine() { return *engine_; }

  /// Runs the engine's own actions, or these if there are any.
  StepResult step(int64_t update, const ActionList& actions) {
    engine_->begin_step({.update = update, .learning_rate = 1e-2});
    double scored = 0;
    const auto rows_of = [&](int64_t i) {
      const int64_t ranks = engine_->groups().dp().size(), rank = engine_->groups().dp().rank();
      const HostBatch rows =
          micro_batch((update * run_.micro_batches + i) * ranks + rank, run_.model.vocabulary);
      for (const float weight : rows.loss_weight) scored += weight;
      return rows;
    };
    if (actions.empty()) {
      engine_->run_micro_batches(run_.micro_batches, rows_of);
    } else {
      run_actions(actions, [&](int64_t i) { return engine_->upload_part(rows_of(i)); });
    }
    return engine_->finish_step(scored);
  }

  std::vector<int> segments() const {
    std::vector<int> list;
    for (size_t chunk = 0; chunk < engine_->model().chunks().size(); ++chunk)
      list.push_back(engine_->model().segments(chunk));
    return list;
  }

 private:
  void run_actions(const ActionList& actions, ModelStage::BatchAt batch_at) {
    engine_->store().expect_backwards(run_.micro_batches);
    RankContext context = engine_->context(true, true);
    ParameterStore& store = engine_->store();
    ModelStage stage(
        engine_->model(), context,
        {.message_format = resolved_.layers.precision.stream,
         .begin_chunk = [&](int chunk) { store.begin_chunk(static_cast<size_t>(chunk)); },
         .reduce_chunk = [&](int chunk) { store.reduce_chunk(static_cast<size_t>(chunk)); },
         .saved_policy = &resolved_.memory.saved_policy,
         .second_memory = second_.get(),
         .hooks = engine_->hooks()},
        batch_at);
    run_schedule(actions, stage, engine_->groups().pp());
  }

  const ProgramRun& run_;
  std::unique_ptr<Device> device_;
  OpTable ops_;
  std::unique_ptr<SecondMemory> second_;
  ResolvedRun resolved_;
  std::optional<Engine> engine_;
};

}  // namespace

ActionList widened(const ActionList& actions, const std::vector<int>& segments, int in_turn) {
  ActionList all;
  for (const Action& action : actions) {
    const auto add = [&](int turn, SegmentRange range) -> Action& {
      Action& one = all.emplace_back(action);
      one.micro_batch = action.micro_batch * in_turn + turn;
      one.message.sequence = action.message.sequence * in_turn + turn;
      one.segments = range;
      one.begins = one.reduces = -1;
      one.last_gradient = false;
      return one;
    };
    const size_t first = all.size();
    const int count = segments[static_cast<size_t>(action.chunk)];
    std::vector<SegmentRange> ranges{action.segments};
    if (computes(action.kind)) {
      ranges.clear();
      const auto [begin, end] = action.segments.among(count);
      for (int i = begin; i < end; ++i)
        ranges.push_back({i, i + 1 == count ? SegmentRange::kEnd : i + 1});
      if (action.kind != ActionKind::forward) std::reverse(ranges.begin(), ranges.end());
    }
    for (const SegmentRange& range : ranges) {
      for (int turn = 0; turn < in_turn; ++turn) add(turn, range);
    }
    all[first].begins = action.begins;
    all.back().last_gradient = action.last_gradient;
    all.back().reduces = action.reduces;
  }
  return all;
}

ProgramOutcome run_program(const ProgramRun& run) {
  const ProgramLayout& layout = run.layout;
  ProgramOutcome outcome;
  const int ranks = layout.tp * layout.cp * layout.dp * layout.pp;
  outcome.values.resize(static_cast<size_t>(ranks));
  std::mutex mutex;
  Schedule schedule = make_schedule({.kind = layout.kind,
                                     .pp = layout.pp,
                                     .virtual_stages = layout.virtual_stages,
                                     .micro_batches = run.micro_batches / run.in_turn});
  schedule.micro_batches = run.micro_batches;
  const std::vector<ActionList> whole_chunks = schedule.stages;
  const bool changes = run.by_segment || run.in_turn > 1;
  run_thread_ranks(ranks, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    const int number = world->rank();
    Rank rank(run, std::move(world));
    const auto stage = static_cast<size_t>(rank.engine().groups().pp().rank());
    ActionList actions;
    if (changes) actions = widened(whole_chunks[stage], rank.segments(), run.in_turn);
    StepResult result;
    for (int64_t update = 1; update <= 2; ++update) {
      rank.engine().device().reset_peak();
      result = rank.step(update, actions);
    }
    const int64_t peak_bytes = rank.engine().device().memory().peak_bytes;
    rank.engine().store().finish_gathers();
    rank.engine().store().gather_gradients();
    std::map<std::string, std::vector<double>> values;
    for (const Parameter* p : rank.engine().store().parameters()) {
      values["gradient " + p->path] = test::values(rank.engine().store().main_gradient(*p));
      values["weight " + p->path] = test::values(rank.engine().store().weight(*p));
    }
    const std::lock_guard lock(mutex);
    outcome.peak_bytes += peak_bytes;
    outcome.loss = result.loss, outcome.grad_norm = result.grad_norm;
    outcome.values[static_cast<size_t>(number)] = std::move(values);
    if (changes) schedule.stages[stage] = std::move(actions);
  });
  outcome.holds = validate_schedule(schedule);
  return outcome;
}

void expect_same_bits(const ProgramOutcome& a, const ProgramOutcome& b) {
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t rank = 0; rank < a.values.size(); ++rank) {
    ASSERT_EQ(a.values[rank].size(), b.values[rank].size());
    for (const auto& [name, values] : a.values[rank])
      EXPECT_TRUE(values == b.values[rank].at(name)) << "rank " << rank << " " << name;
  }
}

}  // namespace viaduct::test
