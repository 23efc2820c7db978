// Data-parallel sizes that are not powers of two: buckets are padded to multiples of them, and
// shards cut parameters at any element.

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

constexpr int64_t kRows = 15, kLength = 24, kSteps = 3;

/// Three steps over fifteen rows of random tokens.
std::filesystem::path write_batches(const std::filesystem::path& folder) {
  Tensor ids = host_tensor(DType::i64, {kSteps, kRows, kLength});
  std::mt19937 random(7);
  for (int64_t i = 0; i < ids.elements(); ++i)
    ids.data<int64_t>()[i] = static_cast<int64_t>(random() % 320);
  write_safetensors(folder / "batch.safetensors", {{"batch.input_ids", ids}});
  return folder / "batch.safetensors";
}

TEST(OddDataParallelSizes, GiveTheStepsOfOneRank) {
  const test::TemporaryFolder folder;
  const auto batch = write_batches(folder.path());
  const auto model = test::test_data("golden/llama_tied/model");
  const auto run = [&](const LayoutCase& c) {
    std::vector<std::string> overrides = test::reference_optimizer();
    overrides.push_back("ddp.bucket_size=20000");
    overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
    return probe_layout(model, batch, true, overrides);
  };
  const auto alone = run(layout(1, 1, 1, 1));
  for (const LayoutCase& c : {layout(1, 1, 1, 3), layout(1, 1, 1, 5), layout(1, 2, 1, 3),
                              layout(1, 1, 2, 3, {"train.micro_batch_size=1"})}) {
    SCOPED_TRACE(c.name);
    const auto got = run(c);
    for (const auto& [name, values] : alone) {
      const double limit = name.starts_with("final.") ? 1e-4 : 2e-5;
      EXPECT_LE(relative_error(got.at(name), values), limit) << name;
    }
  }
}

TEST(OddDataParallelSizes, ABatchThatDoesNotDivideNamesBothNumbers) {
  const test::TemporaryFolder folder;
  const auto batch = write_batches(folder.path());
  try {
    probe_layout(test::test_data("golden/llama_tied/model"), batch, true, {"dist.ranks=4"});
    FAIL() << "15 rows on 4 ranks";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("15"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find('4'), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace viaduct
