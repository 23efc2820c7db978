// The two definitions of the mean loss: over all scored tokens of the global batch, and (Megatron's
// default) over the means of the micro-batches. They differ if masks do.

#include <gtest/gtest.h>

#include <random>

#include "checkpoint/safetensors_writer.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::probe_layout;
using test::relative_error;

constexpr int64_t kLength = 32;
const std::string kMeans = "model.calculate_per_token_loss=false",
                  kOneRow = "train.micro_batch_size=1";

class LossMean : public testing::Test {
 protected:
  /// `rows` rows of random tokens, of which row r has most labels masked if r is odd.
  std::filesystem::path batch(int64_t first, int64_t rows) {
    const Tensor ids = host_tensor(DType::i64, {rows, kLength}),
                 labels = host_tensor(DType::i64, {rows, kLength});
    for (int64_t row = 0; row < rows; ++row) {
      std::mt19937 random(static_cast<unsigned>(first + row));
      for (int64_t t = 0; t < kLength; ++t) {
        const auto id = static_cast<int64_t>(random() % 320);
        ids.data<int64_t>()[row * kLength + t] = id;
        labels.data<int64_t>()[row * kLength + t] =
            (first + row) % 2 == 1 && t % 8 != 3 ? -100 : id;
      }
    }
    const auto file = folder_.path() / (std::to_string(first) + "_" + std::to_string(rows) + ".st");
    write_safetensors(file, {{"input_ids", ids}, {"labels", labels}});
    return file;
  }
  std::map<std::string, Tensor> probe(const std::filesystem::path& file, const LayoutCase& c) {
    return probe_layout(test::test_data("golden/llama_tied/model"), file, false, c.overrides);
  }

  test::TemporaryFolder folder_;
};

TEST_F(LossMean, OfMeansIsTheMeanOfTheRows) {
  const LayoutCase alone = layout(1, 1, 1, 1, {kMeans, kOneRow});
  const double first = *probe(batch(0, 1), alone).at("loss").data<float>(),
               second = *probe(batch(1, 1), alone).at("loss").data<float>(),
               both = *probe(batch(0, 2), alone).at("loss").data<float>(),
               tokens = *probe(batch(0, 2), layout(1, 1, 1, 1, {kOneRow})).at("loss").data<float>();
  EXPECT_NEAR(both, (first + second) / 2, 1e-6 * both);
  EXPECT_GT(std::abs(both - tokens), 1e-3);
}

TEST_F(LossMean, IsTheSameInEveryLayoutOfTheSameMicroBatches) {
  for (const std::string& way : {kMeans, std::string("model.calculate_per_token_loss=true")}) {
    const auto alone = probe(batch(0, 4), layout(1, 1, 1, 1, {way, kOneRow}));
    std::vector<LayoutCase> cases{
        layout(1, 1, 1, 2, {way, kOneRow}), layout(1, 1, 1, 4, {way, kOneRow}),
        layout(1, 2, 1, 2, {way, kOneRow}), layout(2, 1, 2, 1, {way, kOneRow})};
    if (way == kMeans)
      cases.push_back(
          layout(1, 1, 1, 4, {way, kOneRow, "ddp.average_in_collective=true"}, "average"));
    for (const LayoutCase& c : cases) {
      SCOPED_TRACE(way + " in " + c.name);
      const auto got = probe(batch(0, 4), c);
      for (const auto& [name, values] : alone)
        EXPECT_LE(relative_error(got.at(name), values), 2e-5) << name;
    }
  }
}

}  // namespace
}  // namespace viaduct
