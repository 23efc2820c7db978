#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/units.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

TEST(NearestName, FindsMisspellingsAndKeepsSilentOtherwise) {
  const std::vector<std::string> names{"micro_batch_size", "global_batch_size", "lr"};
  EXPECT_EQ(nearest_name("micro_batchsize", names), "micro_batch_size");
  EXPECT_EQ(nearest_name("rl", names), "lr");
  EXPECT_EQ(nearest_name("temperature", names), std::nullopt);
  EXPECT_EQ(nearest_name("opt", {"gpt2", "llama"}), std::nullopt) << "half of the letters differ";
  EXPECT_EQ(nearest_name("gtp2", {"gpt2", "llama"}), "gpt2");
  EXPECT_EQ(nearest_name("llama3-405b", {"llama3-70b", "llama3.1-405b"}), "llama3.1-405b")
      << "equally near, and only shortened";
}

TEST(Units, ReadAsPeopleWriteThem) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_count(124.4e6), "124.4M");
  EXPECT_EQ(format_seconds(187), "3m07s");
}

TEST(Units, OneOfAThingIsNotMany) {
  EXPECT_EQ(counted(1, "row"), "1 row");
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(2, "micro-batch", "micro-batches"), "2 micro-batches");
  EXPECT_EQ(counted(1, "entry is", "entries are"), "1 entry is");
}

}  // namespace
}  // namespace viaduct
