// A BF16 run learns as an FP32 run does: on real text their validation losses differ by less than
// those of two FP32 runs that begin with other weights. At learning rates where a rounding grows to
// another trajectory within some steps this would compare chance with chance; at this one it does
// not.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "data/indexed_dataset_writer.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

using Curve = std::vector<std::pair<int64_t, double>>;

/// The bytes of a text, a line a document, as tokens in PREFIX.bin and PREFIX.idx.
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

/// The largest difference after the first step; before it, other weights are other losses.
double farthest(const Curve& a, const Curve& b) {
  double most = 0;
  for (size_t i = 1; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i].second - b.at(i).second));
  return most;
}

TEST(LossCurve, Bf16IsWithinTheNoiseOfFp32) {
  const TemporaryFolder folder;
  std::ifstream text(source_folder() / "data/tinyshakespeare.txt");
  ASSERT_TRUE(text.is_open());
  write_bytes(text, 36000, folder / "train");
  write_bytes(text, 4000, folder / "valid");
  const Overrides run =
      tiny_run() + Overrides{
                       "model.hidden_size=64",
                       "model.ffn_hidden_size=128",
                       "model.vocab_size=128",
                       "model.seq_length=64",
                       "train.global_batch_size=16",
                       "train.micro_batch_size=16",
                       "train.train_iters=120",
                       "optimizer.lr=1e-3",
                       "scheduler.lr_warmup_iters=10",
                       "validation.eval_interval=40",
                       "validation.eval_iters=8",
                       "dataset.mock=false",
                       "dataset.blend_per_split=[[\"" + (folder / "train").string() + "\"],[\"" +
                           (folder / "valid").string() + "\"],null]",
                   };
  const Curve fp32 = train_run(run).validations;
  const Curve other_weights = train_run(run + Overrides{"rng.seed=99"}).validations;
  const Curve bf16 = train_run(run + Overrides{"mixed_precision=bf16_mixed"}).validations;
  ASSERT_EQ(fp32.size(), 4u);
  EXPECT_LT(fp32.back().second, fp32.front().second - 1.5) << "nothing was learnt";
  EXPECT_NE(bf16, fp32) << "BF16 was not used";
  EXPECT_LT(farthest(bf16, fp32), farthest(other_weights, fp32));
}

}  // namespace
}  // namespace viaduct
