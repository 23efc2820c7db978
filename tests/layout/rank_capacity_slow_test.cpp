// The limit on the choices that a rank's tokens send to one rank of experts
// (moe_expert_rank_capacity_factor), in every kind of layout: the dropped choices are those of a
// plain count over the tokens of each sending rank, and where ranks have whole rows, weights after
// three steps do not depend on how these are spread over ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>

#include "base/json.h"
#include "checkpoint/checkpoint_reader.h"
#include "engine/engine.h"
#include "model/segment_walk.h"
#include "nn/moe/moe_edges.h"
#include "ops/elementwise.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/layout_run.h"
#include "support/op_testing.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::element;
using test::layout;
using test::LayoutCase;
using test::Overrides;
using test::setup_of;
using test::tiny_run;
using test::operator+;

constexpr int64_t kExperts = 8;

Overrides tiny_experts() {
  return tiny_run("qwen3_moe") + Overrides{"model.num_moe_experts=8",
                                           "model.moe_router_topk=3",
                                           "model.moe_ffn_hidden_size=24",
                                           "model.init_method_std=0.3",
                                           "model.num_query_groups=4",
                                           "model.moe_token_dispatcher_type=flex",
                                           "train.train_iters=3",
                                           "train.micro_batch_size=1",
                                           "optimizer.lr=1e-3",
                                           "dist.threads_per_rank=1",
                                           "dist.distributed_timeout_minutes=1"};
}

/// ep · etp ranks, in domains of `domain` (0: one exchange without domains).
LayoutCase experts(int ep, int etp, LayoutCase c, int domain = 0) {
  const auto set = [&](const char* field, int value) {
    c.overrides.push_back(field + ("=" + std::to_string(value)));
  };
  set("model.expert_model_parallel_size", ep);
  set("model.expert_tensor_parallel_size", etp);
  if (domain > 0) set("dist.nvlink_domain_size", domain);
  c.name += "_ep" + std::to_string(ep) + "_etp" + std::to_string(etp) +
            (domain > 0 ? "_domains_of_" + std::to_string(domain) : "");
  return c;
}

/// The choices [T · k] of one rank's tokens in its first router.
struct Choices {
  std::vector<int64_t> expert;  // −1: dropped
  std::vector<double> weight;
};

/// Reads them from the order of the rows, or where that comes later, from the choice.
class FirstRouter : public SegmentHooks {
 public:
  explicit FirstRouter(const ExpertPlace& place) : place_(place) {}

  void after(const SegmentEvent& event, const TensorSet& out) override {
    if (event.segment.name() != "router" || !choices.expert.empty()) return;
    const Tensor weights = out.get(moe_edge::probabilities);
    const int64_t own = kExperts * place_.copies / place_.ranks;
    for (int64_t i = 0; i < weights.elements(); ++i) {
      choices.weight.push_back(element(weights, i));
      if (place_.by_domain()) {
        choices.expert.push_back(static_cast<int64_t>(element(out.get(moe_edge::choice), i)));
        continue;
      }
      const auto row =
          static_cast<int64_t>(element(out.get(moe_edge::position), i * place_.copies));
      int64_t to = -1;  // the destination whose rows begin last before this one
      const Tensor offsets = out.get(moe_edge::sent_offsets);
      while (row >= 0 && element(offsets, to + 1) <= static_cast<double>(row)) ++to;
      choices.expert.push_back(row < 0 ? -1 : to / own / place_.copies * own + to % own);
    }
  }

  Choices choices;

 private:
  ExpertPlace place_;
};

HostBatch batch_of(int64_t data_rank, int64_t length, int64_t vocabulary) {
  HostBatch batch;
  std::mt19937 random(static_cast<unsigned>(data_rank));
  for (int64_t i = 0; i < length; ++i) {
    batch.ids.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary)));
    batch.positions.push_back(static_cast<int32_t>(i));
    batch.targets.push_back(0);
    batch.loss_weight.push_back(1);
    batch.token_index.push_back(data_rank * length + i);
  }
  batch.end_document();
  return batch;
}

/// The choices of all ranks in one forward.
std::vector<Choices> routed(const LayoutCase& c, const Overrides& more) {
  const RunSetup setup = setup_of(tiny_experts() + c.overrides + more);
  const ParallelConfig& sizes = setup.config.parallel;
  ExpertPlace place;
  place.copies = sizes.expert_tensor();
  place.ranks = sizes.expert_model_parallel_size * place.copies;
  if (const auto& domain = setup.config.dist.nvlink_domain_size)
    place.domains = place.ranks / *domain;
  std::vector<Choices> all(static_cast<size_t>(setup.config.dist.ranks));
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice device = make_rank_device(setup.config.dist);
    Engine engine(*device.device, device.ops, setup.model, run,
                  ParallelGroups(run.parallelism.mesh, world));
    engine.initialize();
    RankContext context = engine.context(false, false);
    fill(context.ops, {context.loss_state, 0});
    SavedStore nothing(false);
    FirstRouter router(place);
    SegmentHooks* hooks[] = {&router};
    const Batch batch =
        engine.upload_part(batch_of(engine.groups().dp().rank(),
                                    setup.config.model.seq_length.value(), setup.model.vocabulary));
    SegmentWalk(engine.model().chunks()[0], context, batch, nothing, hooks).forward({}, {});
    all[static_cast<size_t>(world->rank())] = std::move(router.choices);
  });
  return all;
}

/// Takes `most` choices for each run of `together` experts, the best first, or the first.
std::vector<bool> kept_by_count(const Choices& all, int64_t together, int64_t most,
                                bool by_weight) {
  std::vector<size_t> order(all.expert.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (by_weight) {
    std::ranges::stable_sort(order,
                             [&](size_t a, size_t b) { return all.weight[a] > all.weight[b]; });
  }
  std::vector<bool> kept(all.expert.size());
  std::map<int64_t, int64_t> taken;
  for (const size_t i : order) kept[i] = ++taken[all.expert[i] / together] <= most;
  return kept;
}

class RankCapacity : public testing::TestWithParam<LayoutCase> {};

TEST_P(RankCapacity, DropsWhatAPlainCountOfEachSenderDrops) {
  const std::vector<Choices> all = routed(GetParam(), {});
  const RunSetup setup = setup_of(tiny_experts() + GetParam().overrides);
  const int64_t ep = setup.config.parallel.expert_model_parallel_size;
  for (const char* policy : {"probs", "position"}) {
    for (const double factor : {0.6, 1.05}) {
      const std::vector<Choices> got =
          routed(GetParam(), {"model.moe_expert_rank_capacity_factor=" + std::to_string(factor),
                              std::string("model.moe_token_drop_policy=") + policy});
      int64_t dropped = 0;
      for (size_t rank = 0; rank < all.size(); ++rank) {
        const Choices& before = all[rank];
        ASSERT_EQ(got[rank].expert.size(), before.expert.size());
        ASSERT_FALSE(before.expert.empty());
        const auto most = static_cast<int64_t>(std::ceil(
            factor * static_cast<double>(before.expert.size()) / static_cast<double>(ep)));
        const std::vector<bool> kept =
            kept_by_count(before, kExperts / ep, most, std::string(policy) == "probs");
        for (size_t i = 0; i < kept.size(); ++i) {
          dropped += kept[i] ? 0 : 1;
          EXPECT_EQ(got[rank].expert[i], kept[i] ? before.expert[i] : -1) << rank << " " << i;
          EXPECT_EQ(got[rank].weight[i], kept[i] ? before.weight[i] : 0) << rank << " " << i;
        }
      }
      // With one rank of experts all choices go to it.
      EXPECT_EQ(dropped > 0, factor < 1 || ep > 1) << policy << " " << factor;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, RankCapacity,
    testing::Values(layout(1, 1, 1, 1, {}, "one"), experts(2, 1, layout(1, 1, 1, 2)),
                    experts(4, 1, layout(2, 2, 1, 1)), experts(2, 2, layout(1, 1, 1, 4)),
                    experts(2, 2, layout(2, 1, 1, 2)), experts(4, 1, layout(1, 1, 1, 4), 2),
                    experts(2, 2, layout(2, 2, 1, 1), 2)),
    [](const auto& info) { return info.param.name; });

/// Both limits: a choice that the expert's drops takes no place of its rank.
TEST(RankCapacity, CountsWhatTheLimitOfAnExpertLeaves) {
  const LayoutCase two = experts(2, 1, layout(1, 1, 1, 2));
  const std::string expert = "model.moe_expert_capacity_factor=0.9",
                    rank = "model.moe_expert_rank_capacity_factor=0.8";
  const std::vector<Choices> before = routed(two, {expert}), got = routed(two, {expert, rank});
  int64_t dropped_before = 0, dropped = 0;
  for (size_t r = 0; r < before.size(); ++r) {
    Choices left;
    std::vector<size_t> at;
    for (size_t i = 0; i < before[r].expert.size(); ++i) {
      if (before[r].expert[i] < 0) {
        ++dropped_before;
        EXPECT_EQ(got[r].expert[i], -1);
        continue;
      }
      left.expert.push_back(before[r].expert[i]);
      left.weight.push_back(before[r].weight[i]);
      at.push_back(i);
    }
    const auto most =
        static_cast<int64_t>(std::ceil(0.8 * static_cast<double>(before[r].expert.size()) / 2));
    const std::vector<bool> kept = kept_by_count(left, kExperts / 2, most, true);
    for (size_t i = 0; i < at.size(); ++i) {
      dropped += kept[i] ? 0 : 1;
      EXPECT_EQ(got[r].expert[at[i]] >= 0, kept[i]) << r << " " << at[i];
    }
  }
  EXPECT_GT(dropped_before, 0);
  EXPECT_GT(dropped, 0);
}

struct Outcome {
  std::map<std::string, std::vector<float>> tensors;
  double dropped = 0;  // mean share
};

Outcome train(const Overrides& more, const LayoutCase& c) {
  const test::TemporaryFolder folder;
  const RunSetup setup = setup_of(
      tiny_experts() + Overrides{"checkpoint.save=" + folder.path().string()} + c.overrides + more);
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, world);
    trainer.run();
  });
  Outcome outcome;
  const auto reader = open_checkpoint(folder.path());
  for (const TensorInfo& info : reader->tensors()) {
    if (info.name.starts_with("optimizer.")) continue;
    const std::string bytes = test::bytes_of(reader->tensor(info.name));
    std::vector<float>& values = outcome.tensors[info.name];
    values.resize(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  outcome.dropped = nlohmann::json::parse(test::last_line(folder / "metrics.jsonl"))
                        .at("routers")
                        .at("dropped")
                        .at("mean")
                        .get<double>();
  return outcome;
}

/// ‖a − b‖ / ‖b‖ of the tensor where it is largest.
double largest_distance(const Outcome& a, const Outcome& b) {
  double largest = 0;
  for (const auto& [name, values] : b.tensors) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(double{a.tensors.at(name).at(i)} - double{values[i]}, 2);
      size += std::pow(double{values[i]}, 2);
    }
    const double least = 1e-5 * std::sqrt(static_cast<double>(values.size()));
    largest = std::max(largest, std::sqrt(difference) / std::max(std::sqrt(size), least));
  }
  return largest;
}

/// Each micro-batch is a row on one rank, so ranks of experts, of data, and domains change nothing
/// but where rows go. One rank has another limit: that of ep = 1.
TEST(RankCapacityTraining, LayoutsOfTheSameEpDropTheSameWhereRanksHaveWholeRows) {
  const Overrides limit{"model.moe_expert_rank_capacity_factor=0.8",
                        "model.moe_aux_loss_coeff=0.05"};
  const Outcome two = train(limit, experts(2, 1, layout(1, 1, 1, 2)));
  EXPECT_GT(two.dropped, 0.1);
  const LayoutCase others[] = {
      experts(2, 1, layout(1, 1, 1, 4)), experts(2, 2, layout(1, 1, 1, 4)),
      experts(2, 1, layout(1, 1, 1, 2), 1),
      experts(2, 1,
              layout(1, 1, 1, 2,
                     {"model.recompute_granularity=full", "model.recompute_method=uniform",
                      "model.recompute_num_layers=1"}))};
  for (const LayoutCase& other : others) {
    const Outcome got = train(limit, other);
    EXPECT_LE(largest_distance(got, two), 2e-4) << other.name;
    EXPECT_NEAR(got.dropped, two.dropped, 1e-12) << other.name;
  }
  const Outcome one = train(limit, layout(1, 1, 1, 1));
  EXPECT_GT(largest_distance(one, two), 1e-3);
}

/// A token has at most 3 choices of a rank's 4 experts: twice an equal share of 3 / 2.
TEST(RankCapacityTraining, ALimitThatNoChoiceExceedsChangesNothing) {
  const LayoutCase two = experts(2, 1, layout(1, 1, 1, 2));
  const Outcome free = train({}, two),
                wide = train({"model.moe_expert_rank_capacity_factor=2"}, two);
  EXPECT_EQ(wide.dropped, 0);
  EXPECT_EQ(wide.tensors, free.tensors);
}

}  // namespace
}  // namespace viaduct
