// Files that become shorter while they are mapped.

#include "base/mapped_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr size_t kPage = 4096;

size_t sum_of(const MappedFile& file) {
  size_t sum = 0;
  for (const char c : file.text()) sum += static_cast<unsigned char>(c);
  return sum;
}

TEST(MappedFaults, AFileThatIsCutShortIsAnIoErrorOfItsReader) {
  const MappedFaults handler;
  test::TemporaryFolder folder;
  write_file_atomically(folder / "cut", std::string(64 * kPage, '\1'));
  write_file_atomically(folder / "whole", std::string(64 * kPage, '\1'));
  const MappedFile cut(folder / "cut"), whole(folder / "whole");
  ASSERT_EQ(::truncate((folder / "cut").c_str(), 16 * kPage), 0);
  size_t sum = 0;
  std::thread([&] { sum = sum_of(cut); }).join();  // another thread than the calling one
  EXPECT_EQ(sum, 16 * kPage) << "the remaining bytes, then zeros";
  EXPECT_TRUE(cut.failed());
  EXPECT_THAT([&] { cut.check(); },
              ThrowsMessage<IoError>(AllOf(
                  HasSubstr((folder / "cut").string() + ": cut short while in use: 262144 bytes "
                                                        "when it was opened, 65536 now"),
                  HasSubstr("byte 65536 could not be read"))));
  EXPECT_EQ(sum_of(whole), 64 * kPage);
  EXPECT_FALSE(whole.failed());
  EXPECT_NO_THROW(whole.check());
  EXPECT_THAT(any_mapped_fault(), HasSubstr("cut: byte 65536 could not be read"));
}

TEST(MappedFaults, TheRestOfAPageReadsAsZerosAndIsNoticedAllTheSame) {
  test::TemporaryFolder folder;
  write_file_atomically(folder / "cut", std::string(kPage, '\1'));
  const MappedFile cut(folder / "cut");
  ASSERT_EQ(::truncate((folder / "cut").c_str(), 100), 0);
  EXPECT_EQ(sum_of(cut), 100u);
  EXPECT_FALSE(cut.failed());
  EXPECT_THAT([&] { cut.check(); }, ThrowsMessage<IoError>(HasSubstr("cut short while in use")));
}

TEST(MappedFaults, AFileThatIsReplacedOrRemovedIsStillThere) {
  test::TemporaryFolder folder;
  write_file_atomically(folder / "a", std::string(kPage, '\1'));
  const MappedFile file(folder / "a");
  write_file_atomically(folder / "a", "b");
  EXPECT_NO_THROW(file.check());
  std::filesystem::remove(folder / "a");
  EXPECT_EQ(sum_of(file), kPage);
  EXPECT_NO_THROW(file.check());
}

TEST(MappedFaultsDeathTest, OtherBusErrorsEndTheProcess) {
  const MappedFaults handler;
  EXPECT_EXIT(raise(SIGBUS); raise(SIGBUS), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace viaduct
