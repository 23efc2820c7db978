// Bytes that ranks send so that tokens reach their experts: the formulas of docs/parallelism.md
// compared with dry runs, and for gathered tokens with a real step, whose bytes do not depend on
// the routing.

#include <gtest/gtest.h>

#include <map>

#include "engine/dry_run.h"
#include "engine/engine.h"
#include "run/launch.h"
#include "run/parallel_settings.h"
#include "run/rank_device.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

// A rank has T = B · S = 64 tokens without tensor and context ranks; H 32, FP32.
constexpr int64_t kRows = 64, kWidth = 32, kTopk = 2, kFloat = 4;

struct ExpertRanks {
  int ep = 1, etp = 1, tp = 1, cp = 1;
  int ranks() const { return ep * etp; }
  int64_t tokens() const { return kRows / tp / cp; }
};

Overrides run_of(const ExpertRanks& grid, const std::string& dispatcher, int layers = 2) {
  const auto number = [](int n) { return std::to_string(n); };
  return tiny_run("qwen3_moe") + Overrides{"model.num_layers=" + number(layers),
                                           "model.num_moe_experts=8",
                                           "model.moe_router_topk=2",
                                           "train.global_batch_size=8",
                                           "dist.threads_per_rank=1",
                                           "dist.ranks=" + number(grid.ranks()),
                                           "model.expert_model_parallel_size=" + number(grid.ep),
                                           "model.expert_tensor_parallel_size=" + number(grid.etp),
                                           "model.tensor_model_parallel_size=" + number(grid.tp),
                                           "model.context_parallel_size=" + number(grid.cp),
                                           "model.moe_token_dispatcher_type=" + dispatcher};
}

using Sent = std::map<std::string, int64_t>;  // by operation

Sent sent_by_rank_0(const RunSetup& setup, const std::string& group = "expert_tp_ep") {
  Sent sent;
  for (const GroupTraffic& t : dry_run(setup, {0}).traffic)
    if (t.group == group) sent[std::string(choice_name(t.operation))] += t.wire_bytes;
  return sent;
}

/// One block's share of a micro-batch.
Sent by_block(const ExpertRanks& grid, const std::string& dispatcher, const Overrides& more = {},
              const std::string& group = "expert_tp_ep") {
  const RunSetup shallow = setup_of(run_of(grid, dispatcher) + more),
                 deep = setup_of(run_of(grid, dispatcher, 4) + more);
  Sent sent = sent_by_rank_0(deep, group);
  for (auto& [operation, bytes] : sent) {
    bytes -= sent_by_rank_0(shallow, group).at(operation);
    bytes /= 2 * micro_batches(deep.config);
  }
  return sent;
}

const ExpertRanks kGrids[] = {{.ep = 2},          {.ep = 4},
                              {.etp = 2},         {.ep = 2, .etp = 2},
                              {.ep = 4, .tp = 2}, {.ep = 2, .etp = 2, .tp = 2, .cp = 2}};

// 128 rows for 8 experts: with 2 ranks 16 rows a rank for each, which MXFP8's products pad to 32.
TEST(ExpertBytes, RowsForQuantizedProductsComeInMultiples) {
  const ExpertRanks grid{.ep = 2};
  const Overrides mx{"mixed_precision=bf16_with_mxfp8_mixed"};
  const auto rows = [&](const Overrides& more) {
    return by_block(grid, "alltoall", mx + more).at("all_to_all") - 4 * 8;  // counts
  };
  const int64_t plain = rows({});
  EXPECT_EQ(plain, kRows * kTopk / 2 * (4 * kWidth * 2 + kFloat));
  EXPECT_EQ(rows({"model.moe_router_padding_for_quantization=true"}), 2 * plain);
}

// Rows to experts and results back, and the gradients of both; with those of rows one number a row
// for the gradients of weights.
TEST(ExpertBytes, AnExchangeSendsTheRowsOfOtherRanks) {
  for (const ExpertRanks& grid : kGrids) {
    const int64_t n = grid.ranks();
    const int64_t rows = grid.tokens() * kTopk * grid.etp;
    const int64_t counts = (n - 1) * 8 / grid.ep * 8;  // i64 for each expert of another rank
    const Sent sent = by_block(grid, "alltoall");
    EXPECT_EQ(sent.at("all_to_all"), rows * (n - 1) / n * (4 * kWidth + 1) * kFloat + counts)
        << n << " ranks, etp " << grid.etp;
  }
}

TEST(ExpertBytes, AGatherSendsTheTokensToAll) {
  for (const ExpertRanks& grid : kGrids) {
    const int64_t n = grid.ranks(), tokens = grid.tokens();
    const Sent sent = by_block(grid, "allgather");
    EXPECT_FALSE(sent.contains("all_to_all"));
    // Tokens forward, gradients of results backward; in addition to the tokens their choices and
    // weights.
    EXPECT_EQ(sent.at("all_gather"), (n - 1) * tokens * (2 * kWidth + 2 * kTopk) * kFloat)
        << n << " ranks, etp " << grid.etp;
    EXPECT_EQ(sent.at("reduce_scatter"), (n - 1) * tokens * (2 * kWidth + kTopk) * kFloat)
        << n << " ranks, etp " << grid.etp;
  }
}

TEST(ExpertBytes, AFusedExchangeSendsTheSameRows) {
  for (const ExpertRanks& grid : kGrids)
    EXPECT_EQ(by_block(grid, "flex"), by_block(grid, "alltoall"));
}

// It has no sorted copies of rows. In alltoall they exist only until the values kept for the
// gradient are freed; where each token has many narrow experts, the peak is the same for both.
TEST(ExpertBytes, AFusedExchangeNeedsNoMoreMemory) {
  const auto peak = [](const std::string& dispatcher) {
    return dry_run(setup_of(run_of({.ep = 4}, dispatcher) +
                            Overrides{"model.moe_router_topk=8", "model.moe_ffn_hidden_size=4",
                                      "model.vocab_size=32", "model.seq_length=256",
                                      "model.recompute_granularity=full",
                                      "model.recompute_method=uniform",
                                      "model.recompute_num_layers=1"}))
        .peak.bytes;
  };
  EXPECT_LE(peak("flex"), peak("alltoall"));
}

// A token of E = 8 experts, 2 of them chosen, reaches M · (1 − C(8 − 8/M, 2) / C(8, 2)) of M
// domains.
TEST(ExpertBytes, ByDomainATokenIsSentOnceToEach) {
  struct Way {
    ExpertRanks grid;
    int64_t domains, copies_of_28;  // of 28 tokens
  };
  // 4 and 2 experts a domain: C(4, 2) = 6, C(6, 2) = 15 of C(8, 2) = 28 choices miss a domain.
  for (const Way& way : {Way{{.ep = 2}, 2, 44}, Way{{.ep = 4}, 2, 44}, Way{{.ep = 4}, 4, 52},
                         Way{{.ep = 2, .etp = 2}, 2, 44}, Way{{.ep = 4, .tp = 2}, 2, 44}}) {
    const ExpertRanks& grid = way.grid;
    const int64_t m = way.domains, inside = grid.ranks() / m;
    const Overrides domain{"dist.nvlink_domain_size=" + std::to_string(inside)};
    const int64_t copies = (grid.tokens() * way.copies_of_28 + 14) / 28;
    const int64_t own = copies / m;  // of the first domain: receives from each rank, and sends back
    const Sent across = by_block(grid, "flex", domain, "ep.outer");
    // Forward: tokens, choices and weights; then sums. Backward: gradients of sums; then of tokens
    // and weights.
    const int64_t away = (copies - own) * (2 * kWidth + 2 * kTopk) * kFloat;
    const int64_t home = (m - 1) * own * (2 * kWidth + kTopk) * kFloat;
    EXPECT_EQ(across.at("all_to_all"), away + home + (m - 1) * 8)
        << grid.ranks() << " ranks, " << m;
    const Sent within = by_block(grid, "flex", domain, "expert_tp_ep.inner");
    const int64_t rows = grid.tokens() * kTopk * grid.etp;
    const int64_t counts = (inside - 1) * 8 / grid.ep * 8;
    if (inside == 1) {
      EXPECT_FALSE(within.contains("all_to_all") && within.at("all_to_all") != 0);
    } else {
      EXPECT_EQ(within.at("all_to_all"),
                rows * (inside - 1) / inside * (4 * kWidth + 1) * kFloat + counts);
    }
    EXPECT_TRUE(sent_by_rank_0(setup_of(run_of(grid, "flex") + domain)).empty());
  }
}

// The exchanges beside another micro-batch's compute send the same as those in turn.
TEST(ExpertBytes, ByDomainInTwoPartsSendsTheSameBytes) {
  const ExpertRanks grid{.ep = 4};
  for (const char* inside : {"dist.nvlink_domain_size=1", "dist.nvlink_domain_size=2"}) {
    const Overrides run{inside, "mixed_precision=bf16_mixed"};
    const Overrides turns = run + Overrides{"comm_overlap.overlap_moe_expert_parallel_comm=true"};
    for (const char* group : {"ep.outer", "expert_tp_ep.inner"})
      EXPECT_EQ(by_block(grid, "flex", turns, group), by_block(grid, "flex", run, group)) << group;
    EXPECT_GT(by_block(grid, "flex", turns, "ep.outer").at("all_to_all"), 0);
  }
}

// A byte an element, and one for each 32 elements.
TEST(ExpertBytes, QuantizedRowsAreAQuarterOfFp32) {
  const ExpertRanks grid{.ep = 4};
  const int64_t rows = grid.tokens() * kTopk * 3 / 4, wide = kWidth * kFloat, narrow = kWidth + 1;
  const int64_t plain = by_block(grid, "flex").at("all_to_all");
  const auto saved = [&](const Overrides& more) {
    return plain - by_block(grid, "flex", more).at("all_to_all");
  };
  EXPECT_EQ(saved({"model.moe_dispatch_fwd_dtype=mxfp8"}), rows * (wide - narrow));
  EXPECT_EQ(saved({"model.moe_combine_bwd_dtype=mxfp8"}), rows * (wide - narrow));
}

/// What rank 0 sends in a step whose rows are all of the same token: routers choose the same
/// experts for all of them.
Sent sent_in_a_real_step(const RunSetup& setup) {
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  StepRecord record;
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    world->record_on(rank.device.get());
    Engine engine(*rank.device, rank.ops, setup.model, run,
                  ParallelGroups(run.parallelism.mesh, world));
    engine.initialize();
    if (world->rank() == 0) rank.device->set_record(&record);
    engine.begin_step({});
    run_blank_batches(setup, engine);
    engine.finish_step(1);
    rank.device->set_record(nullptr);
  });
  Sent sent;
  for (const CollectiveRecord& c : record.collectives())
    if (c.group == "expert_tp_ep") sent[std::string(choice_name(c.operation))] += c.wire_bytes;
  return sent;
}

TEST(ExpertBytes, ARealStepSendsWhatTheDryRunSays) {
  const RunSetup setup = setup_of(run_of({.ep = 2, .etp = 2, .tp = 2}, "allgather"));
  const Sent sent = sent_in_a_real_step(setup);
  EXPECT_EQ(sent, sent_by_rank_0(setup));
  EXPECT_GT(sent.at("reduce_scatter"), 0);
}

// Quantile balancing sums 8 · E · bins bytes a layer over data ranks, however many micro-batches.
TEST(ExpertBytes, MarginsOfAStepAreSummedOnce) {
  const auto summed = [](int bins, int rows) {
    const RunSetup setup = setup_of(
        run_of({.ep = 2}, "alltoall") +
        Overrides{"model.moe_router_load_balancing_type=quantile_balancing",
                  "model.moe_router_score_function=sigmoid", "model.moe_router_pre_softmax=false",
                  "model.moe_router_qb_num_bins=" + std::to_string(bins),
                  "train.global_batch_size=" + std::to_string(rows)});
    int64_t bytes = 0;
    for (const GroupTraffic& t : dry_run(setup, {0}).traffic)
      if (t.operation == Collective::all_reduce) bytes += t.wire_bytes;
    return bytes;
  };
  // An all-reduce over 2 ranks sends the tensor's bytes once; 2 layers.
  for (const int rows : {8, 16})
    EXPECT_EQ(summed(2000, rows) - summed(1000, rows), 2 * 8 * 8 * 1000) << rows;
}

// Limits below an equal share leave this share of the rows in a dry run, those above it all rows.
TEST(ExpertBytes, LimitsBelowAnEqualShareLeaveFewerRows) {
  const ExpertRanks grid{.ep = 4, .etp = 2, .tp = 2};
  const auto rows = [&](const std::string& dispatcher, const Overrides& more) {
    return by_block(grid, dispatcher, more).at("all_to_all") - 7 * 2 * 8;  // counts
  };
  const std::string rank = "model.moe_expert_rank_capacity_factor=",
                    expert = "model.moe_expert_capacity_factor=";
  const int64_t all = rows("flex", {});
  EXPECT_EQ(rows("flex", {rank + "1"}), all);
  EXPECT_EQ(rows("flex", {rank + "0.5"}), all / 2);
  EXPECT_EQ(rows("flex", {rank + "0.5", expert + "0.25"}), all / 4);
  EXPECT_EQ(rows("alltoall", {expert + "0.5"}), all / 2);
  const Overrides domain{"dist.nvlink_domain_size=4"};
  const auto inside = [&](const Overrides& more) {
    return by_block(grid, "flex", domain + more, "expert_tp_ep.inner").at("all_to_all") - 3 * 2 * 8;
  };
  EXPECT_EQ(inside({rank + "0.5"}), inside({}) / 2);
  const auto across = [&](const Overrides& more) {
    return by_block(grid, "flex", domain + more, "ep.outer").at("all_to_all") - 8;
  };
  // Of 28 tokens with 2 of 8 experts a domain of 4 experts has both of 6 and one of 16. Half of the
  // choices stay: 6 · 3/4 + 16 · 1/2 tokens are left for each of the 2 domains.
  const auto of_28 = [&](int64_t copies_of_28) {
    const int64_t copies = (grid.tokens() * copies_of_28 + 14) / 28, own = copies / 2;
    return ((copies - own) * (2 * kWidth + 2 * kTopk) + own * (2 * kWidth + kTopk)) * kFloat;
  };
  EXPECT_EQ(across({}), of_28(44));
  EXPECT_EQ(across({rank + "0.5"}), of_28(25));
}

// A dry run knows no routing, so only rows whose number does not follow from it are the same.
TEST(ExpertBytes, RowsForAWholeCapacityDoNotDependOnTheRouting) {
  for (const char* dispatcher : {"alltoall", "flex"}) {
    const auto setup = [&](const Overrides& more) {
      return setup_of(run_of({.ep = 4}, dispatcher) + more);
    };
    const Overrides capacity{"model.moe_expert_capacity_factor=1"};
    const RunSetup padded =
        setup(capacity + Overrides{"model.moe_pad_expert_input_to_capacity=true"});
    EXPECT_EQ(sent_in_a_real_step(padded), sent_by_rank_0(padded)) << dispatcher;
    const RunSetup dropping = setup(capacity);
    // Each rank sends an expert at most its capacity: 64 · 2 / 8 tokens a micro-batch, where all
    // tokens choose the same 2 experts.
    EXPECT_LT(sent_in_a_real_step(dropping).at("all_to_all"),
              sent_in_a_real_step(padded).at("all_to_all"))
        << dispatcher;
  }
}

}  // namespace
}  // namespace viaduct
