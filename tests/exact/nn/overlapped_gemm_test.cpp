// Exchanges of the tensor ranks overlapped with GEMMs: the same bits as without overlap, for each
// row of the table and each method, and the record shows what overlapped.

#include <gtest/gtest.h>

#include "support/tensor_ranks.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::TensorOutcome;
using test::TensorRun;

struct Row {
  OverlapGemm gemm;
  GemmOverlap overlap;
};

constexpr GemmOverlap kBulk{OverlapMethod::bulk};
constexpr GemmOverlap kRing{OverlapMethod::ring_exchange};
constexpr GemmOverlap kPairs{OverlapMethod::ring_exchange, 1, true};
constexpr GemmOverlap pipeline(int splits) {
  return {OverlapMethod::pipeline, splits};
}

/// Each row of the table with each of its methods.
std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (const OverlapGemm gemm : {OverlapGemm::qkv_fprop, OverlapGemm::fc1_fprop,
                                 OverlapGemm::proj_dgrad, OverlapGemm::fc2_dgrad}) {
    rows.push_back({gemm, kRing});
    rows.push_back({gemm, kPairs});
  }
  for (const OverlapGemm gemm : {OverlapGemm::proj_fprop, OverlapGemm::fc2_fprop,
                                 OverlapGemm::qkv_dgrad, OverlapGemm::fc1_dgrad}) {
    rows.push_back({gemm, kRing});
    for (const int splits : {1, 2, 4}) rows.push_back({gemm, pipeline(splits)});
  }
  for (const OverlapGemm gemm : {OverlapGemm::qkv_dgrad, OverlapGemm::fc1_dgrad,
                                 OverlapGemm::qkv_wgrad, OverlapGemm::fc1_wgrad})
    rows.push_back({gemm, kBulk});
  return rows;
}

/// The default methods of a table, in all ten rows.
GemmOverlapTable default_table() {
  GemmOverlapTable table;
  for (const OverlapGemm gemm : {OverlapGemm::qkv_fprop, OverlapGemm::fc1_fprop,
                                 OverlapGemm::proj_dgrad, OverlapGemm::fc2_dgrad})
    table[gemm] = kRing;
  for (const OverlapGemm gemm : {OverlapGemm::proj_fprop, OverlapGemm::fc2_fprop})
    table[gemm] = pipeline(4);
  for (const OverlapGemm gemm : {OverlapGemm::qkv_dgrad, OverlapGemm::fc1_dgrad,
                                 OverlapGemm::qkv_wgrad, OverlapGemm::fc1_wgrad})
    table[gemm] = kBulk;
  return table;
}

std::string text(const Row& row) {
  return std::string(overlap_gemm_name(row.gemm)) + " " +
         std::string(choice_name(row.overlap.method)) + " " +
         std::to_string(row.overlap.num_splits) + (row.overlap.aggregate ? " in pairs" : "");
}

TEST(OverlappedGemm, EachMethodOfEachRowIsBitwiseNoOverlap) {
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    for (const int tp : {2, 4}) {
      TensorRun run{test::tiny_model("gpt2"), recipe, tp, true};
      const TensorOutcome plain = test::run_tensor_ranks(run);
      for (const Row& row : all_rows()) {
        SCOPED_TRACE(std::string(recipe) + " tp " + std::to_string(tp) + " " + text(row));
        run.overlap = {};
        run.overlap[row.gemm] = row.overlap;
        test::expect_same_bits(test::run_tensor_ranks(run), plain);
      }
    }
  }
}

TEST(OverlappedGemm, AllRowsTogetherAreBitwiseNoOverlap) {
  for (const auto& [name, model] : test::tiny_models()) {
    for (const char* recipe : {"fp32", "fp64"}) {
      SCOPED_TRACE(name + " " + recipe);
      TensorRun run{model, recipe, 2, true};
      const TensorOutcome plain = test::run_tensor_ranks(run);
      run.overlap = default_table();
      test::expect_same_bits(test::run_tensor_ranks(run), plain);
    }
  }
}

/// The operations that one row adds to the record of rank 1, and how many of them ran under a GEMM.
struct Exchange {
  int count = 0, hidden = 0;
  int64_t bytes = 0;  // on the wire
};
std::map<std::string, Exchange> exchanges(const std::optional<Row>& row, int tp) {
  ModelConfig model = test::tiny_model("llama");
  model.layers = 1;
  TensorRun run{model, "fp32", tp, true};
  if (row) run.overlap[row->gemm] = row->overlap;
  const StepRecord record = test::run_tensor_ranks(run).records[1];
  std::map<std::string, Exchange> found;
  for (const CollectiveRecord& c : record.collectives()) {
    if (c.group != "tp") continue;
    Exchange& exchange = found[std::string(choice_name(c.operation))];
    ++exchange.count;
    exchange.bytes += c.wire_bytes;
    for (const OpEntryRecord& op : record.ops()) {
      if (op.op == "gemm" && c.launched_at < op.at && op.at < c.completed_at) {
        ++exchange.hidden;
        break;
      }
    }
  }
  return found;
}

TEST(OverlappedGemm, TheRecordShowsWhatRanUnderWhat) {
  const int64_t chunk = 4 * 16 * 4;  // a rank's rows of the stream: tokens · hidden · 4 bytes
  auto plain = exchanges(std::nullopt, 4);
  for (const auto& [operation, exchange] : plain) EXPECT_EQ(exchange.hidden, 0) << operation;

  // A ring sends each of three chunks under the product of another one.
  auto ring = exchanges(Row{OverlapGemm::qkv_fprop, kRing}, 4);
  EXPECT_EQ(ring["all_gather"].count, plain["all_gather"].count - 1);
  EXPECT_EQ(ring["send"].count, 3);
  EXPECT_EQ(ring["send"].hidden, 3);
  EXPECT_EQ(ring["receive"].hidden, 3);
  EXPECT_EQ(ring["send"].bytes, 3 * chunk);
  // In pairs: one exchange with the neighbour, then a number of steps one less than half the ranks.
  auto pairs = exchanges(Row{OverlapGemm::fc2_dgrad, kPairs}, 4);
  EXPECT_EQ(pairs["send"].count, 2);
  EXPECT_EQ(pairs["send"].hidden, 1);
  EXPECT_EQ(pairs["send"].bytes, 3 * chunk);
  // The reduce-scatter as a ring: each of three pieces is sent under the product of the next.
  auto reduce = exchanges(Row{OverlapGemm::proj_fprop, kRing}, 4);
  EXPECT_EQ(reduce["reduce_scatter"].count, plain["reduce_scatter"].count - 1);
  EXPECT_EQ(reduce["send"].count, 3);
  EXPECT_EQ(reduce["send"].hidden, 3);
  EXPECT_EQ(reduce["send"].bytes, 3 * chunk);
  // Four chunks of output features: only the last reduce-scatter is exposed.
  auto split = exchanges(Row{OverlapGemm::fc2_fprop, pipeline(4)}, 4);
  EXPECT_EQ(split["reduce_scatter"].count, plain["reduce_scatter"].count + 3);
  EXPECT_EQ(split["reduce_scatter"].hidden, 3);
  EXPECT_EQ(split["reduce_scatter"].bytes, plain["reduce_scatter"].bytes);
  // Bulk: one operation, under one GEMM.
  auto gather = exchanges(Row{OverlapGemm::fc1_dgrad, kBulk}, 4);
  EXPECT_EQ(gather["all_gather"].count, plain["all_gather"].count);
  EXPECT_EQ(gather["all_gather"].hidden, 1);
  EXPECT_EQ(gather["all_gather"].bytes, plain["all_gather"].bytes);
  auto scatter = exchanges(Row{OverlapGemm::qkv_wgrad, kBulk}, 4);
  EXPECT_EQ(scatter["reduce_scatter"].count, plain["reduce_scatter"].count);
  EXPECT_EQ(scatter["reduce_scatter"].hidden, 1);
}

}  // namespace
}  // namespace viaduct
