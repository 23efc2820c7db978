// All micro-batches of a chunk do the same, event by event, except the first, which is the first to
// use the weights and to contribute to gradients, and the last, whose contributions start
// reductions. So one of them can represent the others (micro_batch_instances_test.cpp).

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/dry_run.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

struct Layout {
  std::string name;
  Overrides overrides;
  bool last_differs = false;  // it starts reductions of gradients
};

void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

/// One forward, backward or half of one: its micro-batch, its chunk, and which phase of these it
/// is.
struct Phase {
  const ScopeRecord* scope = nullptr;
  int number = 0;  // of the micro-batch's phases of this name in the chunk
};

/// The events in the phases of the step, in order of time; positions count from the phase's begin,
/// sequences from its first operation of the channel.
class Phases {
 public:
  Phases(const StepRecord& record, const SequenceWindow& step) : record_(record) {
    std::map<std::tuple<std::string, int, int64_t>, int> numbers;
    for (const ScopeRecord& scope : record.scopes()) {
      const bool inside = scope.begin_at >= step.begin && scope.end_at < step.end;
      if (!inside || scope.kind != ScopeKind::phase || scope.micro_batch < 0 || scope.chunk < 0)
        continue;
      phases_[scope.begin_at] = {&scope, numbers[{scope.name, scope.chunk, scope.micro_batch}]++};
    }
    for (const OpEntryRecord& op : record.ops())
      add(op.at, [&](const Phase&) {
        return fmt::format("{} {} {} {} {} {} {} {}", op.op, op.kernel, op.stream, op.launches,
                           op.cost.total_flops(), op.cost.bytes_read, op.cost.bytes_written,
                           op.workspace_bytes);
      });
    for (const ScopeRecord& scope : record.scopes()) {
      if (scope.kind != ScopeKind::segment) continue;
      add(scope.begin_at, [&](const Phase&) { return "begin " + scope.name; });
      add(scope.end_at, [&](const Phase&) { return "end " + scope.name; });
    }
    for (const AllocationRecord& a : record.allocations()) {
      add(a.allocated_at,
          [&](const Phase&) { return fmt::format("allocate {} {}", a.bytes, a.tag); });
      add(a.released_at, [&](const Phase& phase) {
        return fmt::format("release {} {} of {}", a.bytes, a.tag, made_in(a.allocated_at, phase));
      });
    }
    std::map<std::tuple<int64_t, std::string, Collective, int, std::optional<Flow>>, int64_t> first;
    for (const CollectiveRecord& c : record.collectives()) {
      add(c.launched_at, [&](const Phase& phase) {
        const auto [found, fresh] = first.try_emplace(
            {phase.scope->begin_at, c.group, c.operation, c.peer, c.flow}, c.sequence);
        return fmt::format("{} {} {} {} {} {} +{}", choice_name(c.operation), c.group, c.peer,
                           choice_name_or(c.flow, ""), c.bytes, c.wire_bytes,
                           c.sequence - found->second);
      });
      add(c.completed_at, [&](const Phase& phase) {
        return fmt::format("complete {} {} of {}", choice_name(c.operation), c.group,
                           made_in(c.launched_at, phase));
      });
    }
  }

  using Key = std::tuple<int, std::string, int>;  // chunk, name, number
  using Events = std::vector<std::string>;
  std::map<Key, std::map<int64_t, Events>> by_micro_batch() const {
    std::map<Key, std::map<int64_t, Events>> all;
    for (const auto& [begin, phase] : phases_) {
      Events& events =
          all[{phase.scope->chunk, phase.scope->name, phase.number}][phase.scope->micro_batch];
      for (auto at = lines_.lower_bound(begin);
           at != lines_.end() && at->first < phase.scope->end_at; ++at)
        events.push_back(fmt::format("{}: {}", at->first - begin, at->second));
    }
    return all;
  }

 private:
  const Phase* at(int64_t position) const {
    auto next = phases_.upper_bound(position);
    if (next == phases_.begin()) return nullptr;
    const Phase& phase = (--next)->second;
    return position < phase.scope->end_at ? &phase : nullptr;
  }
  template <class Text>
  void add(int64_t position, Text&& text) {
    if (const Phase* phase = at(position); phase != nullptr) lines_[position] = text(*phase);
  }
  /// Where in the same micro-batch's phases something began.
  std::string made_in(int64_t position, const Phase& phase) const {
    const Phase* made = at(position);
    if (made == nullptr || made->scope->chunk != phase.scope->chunk ||
        made->scope->micro_batch != phase.scope->micro_batch)
      return "elsewhere";
    return fmt::format("{} {} at {}", made->scope->name, made->number,
                       position - made->scope->begin_at);
  }

  const StepRecord& record_;
  std::map<int64_t, Phase> phases_;       // by begin; they do not overlap
  std::map<int64_t, std::string> lines_;  // by position
};

/// Empty if they are equal.
std::string first_difference(const Phases::Events& a, const Phases::Events& b) {
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string mine = i < a.size() ? a[i] : "nothing",
                      other = i < b.size() ? b[i] : "nothing";
    if (mine != other) return mine + ", not " + other;
  }
  return "";
}

class EqualMicroBatches : public testing::TestWithParam<Layout> {};

TEST_P(EqualMicroBatches, DoTheSameButForTheFirstAndTheLast) {
  const RunSetup setup =
      setup_of(tiny_run() +
               Overrides{"model.num_layers=4", "train.micro_batch_size=1",
                         "dist.threads_per_rank=1", "ddp.overlap_grad_reduce=false"} +
               GetParam().overrides);
  const int64_t ranks = setup.config.dist.ranks;
  for (const int64_t rank : std::set<int64_t>{0, ranks - 1}) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    StepRecord record;
    const DryRun run = dry_run(setup, {static_cast<int>(rank)}, &record, false, true);
    const Phases phases(record, run.windows[static_cast<size_t>(MemorySequence::step)]);
    const auto all = phases.by_micro_batch();
    ASSERT_GE(all.size(), 2u);
    bool first_differs = false, last_differs = false;
    for (const auto& [key, by_micro_batch] : all) {
      const int64_t count = static_cast<int64_t>(by_micro_batch.size());
      ASSERT_EQ(count, 8);
      const auto& second = by_micro_batch.at(1);
      EXPECT_GT(second.size(), 4u);
      for (int64_t i = 2; i < count - 1; ++i)
        EXPECT_EQ(first_difference(by_micro_batch.at(i), second), "")
            << std::get<1>(key) << " " << std::get<2>(key) << " of chunk " << std::get<0>(key)
            << ", micro-batch " << i;
      first_differs |= by_micro_batch.at(0) != second;
      last_differs |= by_micro_batch.at(count - 1) != second;
    }
    EXPECT_TRUE(first_differs) << "its gradients overwrite, those of the others accumulate";
    EXPECT_EQ(last_differs, GetParam().last_differs);
  }
}

std::vector<Layout> layouts() {
  const std::string pp = "model.pipeline_model_parallel_size=2",
                    tp = "model.tensor_model_parallel_size=2", batch = "train.global_batch_size=8";
  return {
      {"alone", {batch, "mixed_precision=bf16_mixed"}},
      {"recompute",
       {batch, "model.recompute_granularity=selective",
        "model.recompute_modules=[core_attn, layernorm, mlp]"}},
      {"stages", {"dist.ranks=2", pp, batch}},
      {"chunks", {"dist.ranks=4", tp, pp, batch, "model.virtual_pipeline_model_parallel_size=2"}},
      {"zero_bubble", {"dist.ranks=2", pp, batch, "model.pipeline_schedule=zero_bubble"}},
      {"context", {"dist.ranks=2", "model.context_parallel_size=2", batch}},
      {"sequence", {"dist.ranks=2", tp, "model.sequence_parallel=true", batch}},
      {"sharded",
       {"dist.ranks=2", "train.global_batch_size=16", "ddp.use_distributed_optimizer=true",
        "ddp.overlap_grad_reduce=true", "ddp.overlap_param_gather=true", "ddp.bucket_size=3000"},
       true}};
}

INSTANTIATE_TEST_SUITE_P(Layouts, EqualMicroBatches, testing::ValuesIn(layouts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
