// The second memory of slots: values come back unchanged, from a file and from host memory;
// refusals of the system are reported, and no wait is endless.

#include "device/slot_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <random>

#include "base/error.h"
#include "support/file_size_limit.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::FileSizeLimit;
using test::patterned;
using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kPage = MemorySlots::kAlignment;

TEST(MemorySlots, FillGapsAndReachNoFartherThanNeeded) {
  MemorySlots slots;
  const int64_t a = slots.take(1), b = slots.take(kPage + 1), c = slots.take(kPage);
  EXPECT_EQ(a, 0);
  EXPECT_EQ(b, kPage);
  EXPECT_EQ(c, 3 * kPage);
  EXPECT_EQ(slots.bytes(), 4 * kPage);
  slots.give(b);
  EXPECT_EQ(slots.take(kPage), kPage) << "the gap";
  EXPECT_EQ(slots.take(2 * kPage), 4 * kPage) << "what is left of it is too small";
  EXPECT_EQ(slots.take(kPage), 2 * kPage);
  EXPECT_EQ(slots.extent(), 6 * kPage);
  slots.give(a);
  EXPECT_EQ(slots.extent(), 6 * kPage) << "the most so far";
  EXPECT_THAT([&] { slots.give(a); }, ThrowsMessage<ShapeError>(HasSubstr("no slot begins at 0")));
}

enum class Where { file, host };

class SlotMemories : public testing::TestWithParam<Where> {
 protected:
  std::unique_ptr<SlotMemory> memory(std::optional<int64_t> most = {}) {
    SecondMemorySettings settings{.most_bytes = most};
    if (GetParam() == Where::file) settings.path = folder_.path().string();
    return make_second_memory(settings, true);
  }
  TemporaryFolder folder_;
};

// Slots of any size, in any order, many at a time, and reused.
TEST_P(SlotMemories, WhatWasPutComesBack) {
  const auto memory = this->memory(), counted = make_second_memory({}, false);
  std::mt19937 random(5);
  struct Kept {
    Tensor value;
    SecondMemory::Id id, counted;
  };
  std::vector<Kept> kept;
  for (int i = 0; i < 200; ++i) {
    if (kept.size() < 3 || random() % 2 == 0) {
      const int64_t bytes = 1 + static_cast<int64_t>(random() % (i % 20 == 0 ? 5'000'000 : 20'000));
      const Tensor value = patterned(DType::u8, {bytes}, random());
      kept.push_back({value, memory->put(value), counted->put(value)});
      if (random() % 3 != 0) memory->finish_put(kept.back().id);
      continue;
    }
    const size_t at = random() % kept.size();
    const Kept one = kept[at];
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(at));
    if (random() % 8 == 0) {
      memory->drop(one.id), counted->drop(one.counted);
      continue;
    }
    const Tensor back = host_tensor(DType::u8, one.value.shape());
    memory->fetch(one.id, back), counted->fetch(one.counted, back);
    memory->take(one.id), counted->take(one.counted);
    ASSERT_EQ(bytes_of(back), bytes_of(one.value)) << i;
  }
  const OffloadCounts &real = memory->counts(), &alone = counted->counts();
  EXPECT_GT(real.fetches, 20);
  EXPECT_EQ(real.puts, alone.puts);
  EXPECT_EQ(real.put_bytes, alone.put_bytes);
  EXPECT_EQ(real.fetched_bytes, alone.fetched_bytes);
  EXPECT_EQ(real.most_bytes, alone.most_bytes) << "a dry run finds the same slots";
  EXPECT_LT(real.most_bytes, real.put_bytes) << "slots are used again";
  EXPECT_GT(real.wait_seconds, 0);
  EXPECT_EQ(alone.wait_seconds, 0);
}

TEST_P(SlotMemories, HoldsNoMoreThanItMay) {
  const auto memory = this->memory(3 * kPage);
  const Tensor page = patterned(DType::u8, {kPage}, 1);
  std::vector<SecondMemory::Id> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(memory->put(page));
  EXPECT_THAT([&] { memory->put(page); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("full: 4096 bytes more, with 12288 in use"),
                                           HasSubstr("memory.offload_bytes = 12288"))));
  memory->drop(ids[1]);
  const auto again = memory->put(page), third = ids[2];
  const Tensor back = host_tensor(DType::u8, {kPage});
  memory->fetch(third, back);
  memory->take(third);
  EXPECT_EQ(bytes_of(back), bytes_of(page));
  memory->drop(again);
}

TEST_P(SlotMemories, IsMeasured) {
  const auto memory = this->memory();
  const OffloadBandwidth bandwidth = memory->measure(1 << 20);
  EXPECT_GT(bandwidth.write, 0);
  EXPECT_GT(bandwidth.read, 0);
  EXPECT_EQ(memory->counts().put_bytes, 0) << "these copies do not count as offload of the run";
}

INSTANTIATE_TEST_SUITE_P(Where, SlotMemories, testing::Values(Where::file, Where::host),
                         [](const auto& info) {
                           return std::string(info.param == Where::file ? "file" : "host");
                         });

TEST(SecondMemoryFile, HasNoName) {
  TemporaryFolder folder;
  const auto memory = make_second_memory({.path = folder.path().string()}, true);
  memory->finish_put(memory->put(patterned(DType::u8, {100'000}, 1)));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the file has no name and cannot remain";
  EXPECT_THAT(memory->describe(), HasSubstr("file in " + folder.path().string()));
}

TEST(SecondMemoryFile, AFullDiskIsSaidWhereSomebodyWaits) {
  TemporaryFolder folder;
  const auto memory = make_second_memory({.path = folder.path().string()}, true);
  const Tensor value = patterned(DType::u8, {100'000}, 1);
  const auto first = memory->put(value);
  memory->finish_put(first);
  const FileSizeLimit limit(150'000);
  const auto second = memory->put(value), third = memory->put(value);
  const auto full =
      ThrowsMessage<IoError>(AllOf(HasSubstr(folder.path().string()), HasSubstr("of 100000 bytes"),
                                   HasSubstr("were written: "), HasSubstr("memory.offload_path")));
  EXPECT_THAT([&] { memory->finish_put(second); }, full);
  EXPECT_THAT([&] { memory->finish_put(third); }, full) << "nothing is copied after it";
  const Tensor back = host_tensor(DType::u8, {100'000});
  memory->fetch(first, back);
  EXPECT_THAT([&] { memory->take(first); }, full);
  for (const auto id : {first, second, third}) memory->drop(id);  // no wait is endless
}

TEST(SecondMemoryFile, RoomIsAskedForBeforehand) {
  TemporaryFolder folder;
  const auto memory = make_second_memory({.path = folder.path().string()}, true);
  const FileSizeLimit limit(1 << 20);
  EXPECT_NO_THROW(memory->reserve(100'000));
  EXPECT_THAT([&] { memory->reserve(2 << 20); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr("no room for its 2.00 MiB"), HasSubstr(folder.path().string()))));
}

TEST(SecondMemoryFile, AFolderThatIsNoneIsRefused) {
  TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  for (const auto& path : {folder / "missing", folder / "file"}) {
    EXPECT_THAT([&] { make_second_memory({.path = path.string()}, true); },
                ThrowsMessage<ConfigError>(AllOf(HasSubstr("memory.offload_path: " + path.string()),
                                                 HasSubstr("expected a folder"))));
  }
}

TEST(SecondMemoryCounts, NothingIsCopiedInADryRun) {
  const auto memory = make_second_memory({.path = "/nowhere"}, false);
  const Tensor value = patterned(DType::u8, {5000}, 1), back = patterned(DType::u8, {5000}, 2);
  const std::string before = bytes_of(back);
  const auto id = memory->put(value);
  memory->finish_put(id);
  memory->fetch(id, back);
  memory->take(id);
  EXPECT_EQ(bytes_of(back), before);
  EXPECT_EQ(memory->counts().most_bytes, 2 * kPage);
  EXPECT_THAT([&] { memory->take(id); }, ThrowsMessage<ShapeError>(HasSubstr("nothing was put")));
}

}  // namespace
}  // namespace viaduct
