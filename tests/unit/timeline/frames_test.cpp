// Frames: instances of one kind lie in slots of equal layout, allocations that live at the same
// time never overlap, there are as many slots as instances live at once, and frames are not used
// where they cost too much.

#include "timeline/frames.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace viaduct {
namespace {

constexpr int64_t kAlignment = 64;

/// Micro-batches of a chunk with allocations for their backwards, and temporary ones.
struct Program {
  std::vector<Lifetime> lifetimes;
  std::vector<FrameItem> items;
  int64_t now = 0;

  void scratch(int64_t bytes) {
    lifetimes.push_back({bytes, now, now + 1});
    ++now;
  }
  void forward(int kind, int64_t instance, const std::vector<int64_t>& kept) {
    for (const int64_t bytes : kept) {
      scratch(bytes / 4);
      items.push_back({lifetimes.size(), kind, instance});
      lifetimes.push_back({bytes, now++, -1});
    }
  }
  void backward(int kind, int64_t instance) {
    for (size_t i = items.size(); i-- > 0;) {
      if (items[i].kind != kind || items[i].instance != instance) continue;
      scratch(lifetimes[items[i].lifetime].bytes / 4);
      lifetimes[items[i].lifetime].end = now++;
    }
  }
};

/// Checks that it is a placement in frames.
void expect_frames(const Program& program, const FramedPlacement& placed) {
  const auto& offsets = placed.placement.offsets;
  for (size_t i = 0; i < program.lifetimes.size(); ++i) {
    const Lifetime& a = program.lifetimes[i];
    EXPECT_EQ(offsets[i] % kAlignment, 0);
    EXPECT_LE(offsets[i] + a.bytes, placed.placement.bytes);
    for (size_t j = 0; j < i; ++j) {
      const Lifetime& b = program.lifetimes[j];
      if (a.end <= b.begin || b.end <= a.begin) continue;
      EXPECT_TRUE(offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i])
          << i << " and " << j << " overlap";
    }
  }
  std::map<std::pair<int, int>, std::vector<int64_t>> layout;  // by kind and slot
  std::map<std::pair<int, int>, int64_t> at;
  for (const Frame& frame : placed.frames) {
    const auto [place, fresh] = at.emplace(std::pair(frame.kind, frame.slot), frame.offset);
    EXPECT_EQ(place->second, frame.offset) << "a slot moved";
    std::vector<int64_t> own;
    for (const FrameItem& item : program.items) {
      if (item.kind != frame.kind || item.instance != frame.instance) continue;
      own.push_back(offsets[item.lifetime] - frame.offset);
      EXPECT_GE(own.back(), 0);
      EXPECT_LE(own.back() + program.lifetimes[item.lifetime].bytes, frame.bytes);
    }
    const auto& first = layout.try_emplace({frame.kind, 0}, own).first->second;
    EXPECT_EQ(own, first) << "micro-batch " << frame.instance << " has another layout";
  }
}

int slots(const FramedPlacement& placed) {
  std::set<int64_t> offsets;
  for (const Frame& frame : placed.frames) offsets.insert(frame.offset);
  return static_cast<int>(offsets.size());
}

/// Warm-up of `ahead` forwards, then one forward and one backward in turn, then the rest.
Program one_forward_one_backward(int64_t micro_batches, int64_t ahead,
                                 const std::vector<int64_t>& kept) {
  Program program;
  for (int64_t i = 0; i < micro_batches + ahead; ++i) {
    if (i < micro_batches) program.forward(0, i, kept);
    if (i >= ahead) program.backward(0, i - ahead);
  }
  return program;
}

TEST(Frames, AsManySlotsAsMicroBatchesInFlight) {
  for (const int64_t ahead : {0, 1, 3}) {
    const Program program = one_forward_one_backward(9, ahead, {1000, 200, 3000, 64});
    const FramedPlacement placed = place_in_frames(program.lifetimes, program.items, kAlignment);
    ASSERT_EQ(placed.frames.size(), 9u) << ahead;
    EXPECT_EQ(slots(placed), ahead + 1);
    expect_frames(program, placed);
    for (const Frame& frame : placed.frames) EXPECT_EQ(frame.slot, frame.instance % (ahead + 1));
    EXPECT_LE(static_cast<double>(placed.placement.bytes),
              kMostOfFrames * static_cast<double>(placed.placement.lower_bound));
  }
}

TEST(Frames, ChunksOfEqualFramesShareSlots) {
  Program program;
  for (int64_t i = 0; i < 3; ++i) {
    for (const int chunk : {0, 1}) program.forward(chunk, i, {1000, 500});
    for (const int chunk : {1, 0}) program.backward(chunk, i);
  }
  const FramedPlacement placed = place_in_frames(program.lifetimes, program.items, kAlignment);
  EXPECT_EQ(placed.frames.size(), 6u);
  EXPECT_EQ(slots(placed), 2);
  expect_frames(program, placed);
}

TEST(Frames, AMicroBatchUnlikeTheOthersIsPlacedByItself) {
  Program program;
  for (int64_t i = 0; i < 4; ++i) {
    program.forward(0, i, i == 2 ? std::vector<int64_t>{1000} : std::vector<int64_t>{1000, 500});
    program.backward(0, i);
  }
  const FramedPlacement placed = place_in_frames(program.lifetimes, program.items, kAlignment);
  ASSERT_EQ(placed.frames.size(), 3u);
  for (const Frame& frame : placed.frames) EXPECT_NE(frame.instance, 2);
  expect_frames(program, placed);
}

TEST(Frames, AnotherOrderIsAnotherLayout) {
  Program program = one_forward_one_backward(2, 0, {1000, 500});
  std::swap(program.lifetimes[program.items[2].lifetime].end,
            program.lifetimes[program.items[3].lifetime].end);
  EXPECT_TRUE(place_in_frames(program.lifetimes, program.items, kAlignment).frames.empty());
}

// Two kinds that live one after the other need room for only one of them; frames keep both.
TEST(Frames, ThereAreNoneWhereTheyWouldTakeTooMuch) {
  Program program;
  for (const int chunk : {0, 1}) {
    for (int64_t i = 0; i < 2; ++i) {
      program.forward(chunk, i, {1000, chunk == 0 ? 500 : 5000});
      program.backward(chunk, i);
    }
  }
  const FramedPlacement placed = place_in_frames(program.lifetimes, program.items, kAlignment);
  EXPECT_EQ(placed.placement.bytes, place(program.lifetimes, kAlignment).bytes);
  EXPECT_EQ(placed.bytes_without_frames, placed.placement.bytes);
  EXPECT_TRUE(placed.frames.empty());
  // Compared with much memory that is held anyway it is little.
  const FramedPlacement beside =
      place_in_frames(program.lifetimes, program.items, kAlignment, 1 << 20);
  EXPECT_EQ(beside.frames.size(), 4u);
  expect_frames(program, beside);
}

TEST(Frames, WithoutItemsItIsPlainPlacement) {
  const Program program = one_forward_one_backward(3, 1, {1000, 500});
  const FramedPlacement placed = place_in_frames(program.lifetimes, {}, kAlignment);
  EXPECT_EQ(placed.placement.offsets, place(program.lifetimes, kAlignment).offsets);
  EXPECT_TRUE(placed.frames.empty());
}

}  // namespace
}  // namespace viaduct
