// A BF16 run learns as an FP32 run does: on real text their validation losses differ by less than
// those of two FP32 runs with different initial weights. At higher learning rates a rounding error
// leads to another trajectory within some steps, and the comparison would be meaningless.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "data/indexed_dataset_writer.h"
#include "support/instruction_set.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

using Curve = std::vector<std::pair<int64_t, double>>;

/// Writes the bytes of a text, a line a document, as tokens in PREFIX.bin and PREFIX.idx.
void write_bytes(std::ifstream& text, int64_t lines, const std::filesystem::path& prefix) {
  IndexedDatasetWriter writer(prefix, TokenType::uint16);
  std::string line;
  for (int64_t i = 0; i < lines && std::getline(text, line); ++i) {
    std::vector<int32_t> tokens(line.begin(), line.end());
    tokens.push_back('\n');
    writer.add_document(tokens);
  }
  writer.finish();
}

/// The largest difference after the first step; before it, different weights give different losses.
double farthest(const Curve& a, const Curve& b) {
  double most = 0;
  for (size_t i = 1; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i].second - b.at(i).second));
  return most;
}

/// Overrides of a run on the bytes of Shakespeare's lines.
Overrides on_shakespeare(const TemporaryFolder& folder) {
  std::ifstream text(source_folder() / "data/tinyshakespeare.txt");
  EXPECT_TRUE(text.is_open());
  write_bytes(text, 36000, folder / "train");
  write_bytes(text, 4000, folder / "valid");
  return {"model.vocab_size=128",
          "optimizer.lr=1e-3",
          "scheduler.lr_warmup_iters=10",
          "validation.eval_iters=8",
          "dataset.mock=false",
          "dataset.blend_per_split=[[\"" + (folder / "train").string() + "\"],[\"" +
              (folder / "valid").string() + "\"],null]"};
}

/// BF16 is nearer to FP32 than FP32 with either of two other seeds is, and all have learnt.
void expect_within_the_noise(const Overrides& run, double learnt) {
  const Curve fp32 = train_run(run).validations;
  const Curve bf16 = train_run(run + Overrides{"mixed_precision=bf16_mixed"}).validations;
  ASSERT_EQ(fp32.size(), 4u);
  EXPECT_LT(fp32.back().second, fp32.front().second - learnt) << "nothing was learnt";
  EXPECT_NE(bf16, fp32) << "BF16 was not used";
  for (const char* seed : {"rng.seed=99", "rng.seed=7"}) {
    const Curve other_weights = train_run(run + Overrides{seed}).validations;
    EXPECT_LT(farthest(bf16, fp32), farthest(other_weights, fp32)) << seed;
  }
}

TEST(LossCurve, Bf16IsWithinTheNoiseOfFp32) {
  const TemporaryFolder folder;
  expect_within_the_noise(
      tiny_run() +
          Overrides{"model.hidden_size=64", "model.ffn_hidden_size=128", "model.seq_length=64",
                    "train.global_batch_size=16", "train.micro_batch_size=16",
                    "train.train_iters=120", "validation.eval_interval=40"} +
          on_shakespeare(folder),
      1.5);
}

TEST(LossCurve, Bf16IsWithinTheNoiseOnTheQuickstartsModel) {
  const TemporaryFolder folder;
  // The first steps of configs/quickstart.yaml, on bytes.
  const Overrides run =
      Overrides{"model.family=llama",          "model.num_layers=6",
                "model.hidden_size=192",       "model.ffn_hidden_size=512",
                "model.num_attention_heads=6", "model.num_query_groups=2",
                "model.seq_length=256",        "model.share_embeddings_and_output_weights=true",
                "mixed_precision=fp32",        "train.global_batch_size=4",
                "train.micro_batch_size=4",    "train.train_iters=24",
                "validation.eval_interval=8",  "logger.log_interval=8"} +
      on_shakespeare(folder) + instruction_set_override();
  expect_within_the_noise(run, 1.0);
}

}  // namespace
}  // namespace viaduct
