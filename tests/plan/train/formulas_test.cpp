// The formulas of docs/parallelism.md for bytes sent on each axis, compared with dry runs. A
// block's share is the difference between models of two depths.

#include <gtest/gtest.h>

#include "config/load.h"
#include "engine/dry_run.h"
#include "run/parallel_settings.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

// The tiny run: B 2, S 32, H 32, N 4, K 2, D 8, FP32.
constexpr int64_t kTokens = 64, kWidth = 32, kHeads = 4, kKvHeads = 2, kHeadDim = 8,
                  kActivation = 4;

struct Sizes {
  int tp = 1, cp = 1, pp = 1, dp = 1;
  ContextExchange cp_comm_type = ContextExchange::p2p;
};

RunSetup setup_of(const Sizes& sizes, int layers, const Overrides& more = {}) {
  LoadedRunConfig loaded = load_run_config(
      {}, tiny_run() +
              Overrides{"model.num_layers=" + std::to_string(layers), "model.num_query_groups=2",
                        "train.global_batch_size=8", "dist.threads_per_rank=1"} +
              more);
  RunConfig& config = loaded.config;
  config.dist.ranks = sizes.tp * sizes.cp * sizes.pp * sizes.dp;
  config.parallel.tensor_model_parallel_size = sizes.tp;
  config.parallel.context_parallel_size = sizes.cp;
  config.parallel.pipeline_model_parallel_size = sizes.pp;
  config.context_parallel.cp_comm_type = sizes.cp_comm_type;
  return prepare_run(std::move(loaded));
}

/// Bytes sent by rank 0 in a step in groups with this name; all operations, or one.
int64_t sent(const RunSetup& setup, const std::string& group, const std::string& operation = "",
             GlobalRank rank = {0}) {
  int64_t bytes = 0;
  for (const GroupTraffic& t : dry_run(setup, rank).traffic) {
    if (t.group == group && (operation.empty() || choice_name(t.operation) == operation))
      bytes += t.wire_bytes;
  }
  return bytes;
}

/// One block's share of this for one micro-batch.
int64_t sent_by_block(const RunSetup& shallow, const RunSetup& deep, const std::string& group,
                      const std::string& operation = "") {
  const int64_t micro = micro_batches(deep.config);
  const int64_t layers = deep.model.layers - shallow.model.layers;
  return (sent(deep, group, operation) - sent(shallow, group, operation)) / (layers * micro);
}

constexpr int64_t kStream = kTokens * kWidth * kActivation;  // T · H · a

TEST(Formulas, TensorRanksSendFourAllReducesABlock) {
  for (const int tp : {2, 4}) {
    RunSetup shallow = setup_of({.tp = tp}, 2), deep = setup_of({.tp = tp}, 4);
    for (RunSetup* setup : {&shallow, &deep}) setup->config.parallel.sequence_parallel = false;
    const int64_t all_reduces = sent_by_block(shallow, deep, "tp", "all_reduce");
    EXPECT_EQ(all_reduces, 8 * (tp - 1) * kStream / tp) << "tp " << tp;
  }
}

TEST(Formulas, SequenceParallelSendsAQuarterMore) {
  const Overrides off{"comm_overlap.tp_comm_overlap=false"};
  const RunSetup shallow = setup_of({.tp = 2}, 2, off), deep = setup_of({.tp = 2}, 4, off);
  ASSERT_TRUE(deep.config.parallel.sequence_parallel.value());
  EXPECT_EQ(sent_by_block(shallow, deep, "tp", "all_gather"), 6 * kStream / 2)
      << "two in the forward, four in the backward";
  EXPECT_EQ(sent_by_block(shallow, deep, "tp", "reduce_scatter"), 4 * kStream / 2)
      << "two in the forward, two in the backward";
}

TEST(Formulas, HidingUnderGemmsSendsAsMuch) {
  const RunSetup shallow = setup_of({.tp = 2}, 2), deep = setup_of({.tp = 2}, 4);
  ASSERT_TRUE(deep.config.tensor_overlap.tp_comm_overlap.value());
  int64_t hidden = 0;  // on rings and in chunks
  for (const char* operation : {"all_gather", "reduce_scatter", "send"})
    hidden += sent_by_block(shallow, deep, "tp", operation);
  EXPECT_EQ(hidden, 10 * kStream / 2);
  // In addition the weights of a block's two norms, once a step.
  EXPECT_EQ(sent(deep, "tp", "all_reduce") - sent(shallow, "tp", "all_reduce"),
            2 * (2 * kWidth * kActivation));
}

TEST(Formulas, ContextRanksPassKeysAndValues) {
  const int64_t keys = kTokens / 2 * 2 * kKvHeads * kHeadDim * kActivation;  // T · 2K · D · a
  using enum ContextExchange;
  const auto block = [&](ContextExchange type, const char* operation) {
    return sent_by_block(setup_of({.cp = 2, .cp_comm_type = type}, 2),
                         setup_of({.cp = 2, .cp_comm_type = type}, 4), "cp.outer", operation) +
           sent_by_block(setup_of({.cp = 2, .cp_comm_type = type}, 2),
                         setup_of({.cp = 2, .cp_comm_type = type}, 4), "cp", operation);
  };
  // The gradients of a block of keys travel with it, and one step more to return.
  EXPECT_EQ(block(p2p, "send"), keys + (keys + 2 * keys)) << "forward, and backward";
  EXPECT_EQ(block(all_gather, "all_gather"), 2 * keys) << "forward and again in the backward";
  EXPECT_EQ(block(all_gather, "reduce_scatter"), keys);
  const int64_t exchanged =
      kTokens / 2 * (2 * kHeads + 2 * kKvHeads) * kHeadDim * kActivation / 2;  // (cp − 1)/cp
  EXPECT_GE(block(a2a, "all_to_all"), 2 * exchanged) << "forward, and gradients the other way";
}

TEST(Formulas, StagesSendTheStream) {
  const RunSetup setup = setup_of({.pp = 4}, 4);
  const int64_t micro = micro_batches(setup.config);
  EXPECT_EQ(sent(setup, "pp", "send", {0}), micro * kStream) << "activations";
  EXPECT_EQ(sent(setup, "pp", "send", {1}), micro * 2 * kStream) << "gradients";
  EXPECT_EQ(sent(setup, "pp", "send", {3}), micro * kStream);
}

// Twice the bytes between stages, and between tensor ranks for the embedding; blocks and head
// exchange activations as before.
TEST(Formulas, AnFp32StreamUnderBf16) {
  const Overrides bf16{"mixed_precision=bf16_mixed", "comm_overlap.tp_comm_overlap=false"};
  const Overrides wide = bf16 + Overrides{"model.fp32_residual_connection=true"};
  const int64_t narrow_stream = kTokens * kWidth * 2, wide_stream = kTokens * kWidth * 4;
  const RunSetup stages = setup_of({.pp = 4}, 4, bf16), wide_stages = setup_of({.pp = 4}, 4, wide);
  const int64_t micro = micro_batches(stages.config);
  EXPECT_EQ(sent(stages, "pp", "send", {1}), micro * 2 * narrow_stream);
  EXPECT_EQ(sent(wide_stages, "pp", "send", {1}), micro * 2 * wide_stream);

  const RunSetup tensor = setup_of({.tp = 2}, 2, bf16), wide_tensor = setup_of({.tp = 2}, 2, wide);
  const auto more = [&](const char* operation) {
    return sent(wide_tensor, "tp", operation) - sent(tensor, "tp", operation);
  };
  const int64_t grown = micro_batches(tensor.config) * (wide_stream - narrow_stream) / 2;
  EXPECT_EQ(more("reduce_scatter"), grown) << "rows looked up";
  EXPECT_EQ(more("all_gather"), grown) << "gradient of the rows";
  EXPECT_EQ(more("all_reduce"), 0);
}

TEST(Formulas, DataRanksSendGradientsAndWeightsOnce) {
  const RunSetup setup = setup_of({.dp = 4}, 2);
  const DryRun run = dry_run(setup);
  int64_t gradients = 0, weights = 0;
  for (const GroupTraffic& t : run.traffic) {
    if (!t.group.starts_with("dp_cp")) continue;
    if (t.operation == Collective::reduce_scatter) gradients += t.wire_bytes;
    if (t.operation == Collective::all_gather && t.bytes > run.parameters) weights += t.wire_bytes;
  }
  // Each tensor begins on a multiple of 64 elements, and buckets are padded.
  const auto most = static_cast<int64_t>(run.parameters + 64 * (run.tensors.size() + 4));
  EXPECT_GE(gradients, run.parameters * 4 * 3 / 4);
  EXPECT_LE(gradients, most * 4 * 3 / 4);
  EXPECT_GE(weights, run.parameters * 4 * 3 / 4);
  EXPECT_LE(weights, most * 4 * 3 / 4);
  const RunSetup longer = setup_of({.dp = 4}, 2, {"train.global_batch_size=32"});
  EXPECT_EQ(sent(longer, "dp_cp.inner", "reduce_scatter"), gradients)
      << "once a step, however many micro-batches";
}

}  // namespace
}  // namespace viaduct
