#include "pipeline/places_in_flight.h"

#include <gtest/gtest.h>

#include "pipeline/schedule.h"

namespace viaduct {
namespace {

std::vector<int64_t> places(const ScheduleSettings& settings, int stage) {
  std::vector<int64_t> list;
  for (const auto& [of, place] : places_in_flight(stage_schedule(settings, stage)))
    list.push_back(place);
  return list;  // in the order of micro-batches, then chunks
}

// Megatron: i modulo (warm-up + 1); a stage's warm-up is the number of stages after it.
TEST(PlacesInFlight, OfOneForwardOneBackwardAreModuloTheStagesToCome) {
  const ScheduleSettings settings{.pp = 3, .micro_batches = 7};
  EXPECT_EQ(places(settings, 0), (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(places(settings, 1), (std::vector<int64_t>{0, 1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(places(settings, 2), (std::vector<int64_t>(7, 0)));
}

TEST(PlacesInFlight, OfAllForwardsAreTheirNumbers) {
  EXPECT_EQ(places({.kind = ScheduleKind::gpipe, .pp = 2, .micro_batches = 4}, 1),
            (std::vector<int64_t>{0, 1, 2, 3}));
}

// Warm-up of the interleaved schedule: 2 · (pp − stage − 1) + (chunks − 1) · pp forwards, plus one.
TEST(PlacesInFlight, OfChunksCountForwardsOfAnyChunk) {
  const ScheduleSettings settings{
      .kind = ScheduleKind::interleaved, .pp = 2, .virtual_stages = 2, .micro_batches = 4};
  // Forwards of stage 1: micro-batches 0, 1 in chunk 0, then in chunk 1, then 2, 3; 3 at a time.
  EXPECT_EQ(places(settings, 1), (std::vector<int64_t>{0, 2, 1, 0, 1, 0, 2, 1}));
}

// The head's weight gradient waits until the end, long after the rest of its micro-batch.
TEST(PlacesInFlight, WhatWaitsForTheHeadsWeightDoesNotCount) {
  ScheduleSettings settings{.pp = 2, .micro_batches = 6};
  settings.deferred_heads = 6;
  EXPECT_EQ(places(settings, 1), (std::vector<int64_t>(6, 0)));
}

}  // namespace
}  // namespace viaduct
