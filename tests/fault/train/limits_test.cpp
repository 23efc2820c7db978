// Small shell limits: on stacks, file sizes and address space.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/command.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AnyOf;
using testing::HasSubstr;

/// A short run of two ranks under `limit`, a shell command; it may take a minute.
CommandResult train_under(const std::string& limit, const std::string& more) {
  std::string command = limit + "; timeout 60 " + viaduct_binary() + " train";
  for (const std::string& override : tiny_run()) command += " '" + override + "'";
  return run_command(command + " train.train_iters=2 " + more);
}

/// A sanitizer's runtime needs terabytes of address space and larger frames.
constexpr bool kSanitized =
#if defined(VIADUCT_ADDRESS_SANITIZER)
    true;
#else
    false;
#endif

TEST(Limits, ASmallStackIsEnough) {
  if (kSanitized) GTEST_SKIP() << "the frames of a sanitized build are larger";
  for (const char* more : {"dist.threads_per_rank=2", "dist.ranks=2 dist.threads_per_rank=2",
                           "mixed_precision=bf16_mixed model.hidden_size=512 "
                           "model.ffn_hidden_size=2048 dist.threads_per_rank=2"}) {
    const CommandResult result = train_under("ulimit -s 100", more);
    EXPECT_EQ(result.status, 0) << more << "\n" << result.err;
  }
}

TEST(Limits, AFileThatMayNotGrowIsAFailedWrite) {
  TemporaryFolder folder;
  const CommandResult result =
      train_under("ulimit -f 8", "checkpoint.save=" + (folder / "run").string());
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("File too large"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run/latest"));
}

TEST(Limits, LittleAddressSpaceIsAnErrorAndNoHang) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer reserves terabytes of address space";
  for (const int kilobytes : {60'000, 90'000, 120'000, 200'000}) {
    const CommandResult result = train_under("ulimit -v " + std::to_string(kilobytes),
                                             "model.hidden_size=1024 model.vocab_size=50000");
    // 127: the loader itself has no room for the libraries.
    EXPECT_THAT(result.status, AnyOf(1, 2, 127)) << kilobytes << "\n" << result.err;
    EXPECT_FALSE(result.err.empty());
  }
}

}  // namespace
}  // namespace viaduct
