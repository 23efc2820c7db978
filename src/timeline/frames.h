#pragma once
// Places for what a program keeps repeatedly: instances of one kind (the micro-batches of a
// chunk of layers) have frames of equal layout, so that the address of each thing is a function of
// the slot that its instance lives in and of the thing: slot's offset + offset in the frame.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "timeline/placement.h"

namespace viaduct {

/// A lifetime that belongs to an instance. Items of an instance are numbered in their order in the
/// list.
struct FrameItem {
  size_t lifetime = 0;   // index of it
  int kind = 0;          // chunk of layers
  int64_t instance = 0;  // micro-batch
};

/// Where an instance lives. Slots of one kind, and of kinds whose frames are equal, are numbered
/// from 0; as many are used as instances live at once.
struct Frame {
  int kind = 0;
  int64_t instance = 0;
  int slot = 0;
  int64_t offset = 0, bytes = 0;
};

struct FramedPlacement {
  Placement placement;
  std::vector<Frame> frames;  // in the order of their begins; empty: no frames
  /// The arena size with everything placed separately; 0: not computed, since frames already cost
  /// less than the limit.
  int64_t bytes_without_frames = 0;
};

/// The limit by which an arena with frames may be larger than one in which everything is placed
/// separately; above it there are no frames.
inline constexpr double kMostOfFrames = 1.02;

/// As `place`, with frames for `items`. A kind has frames where at least two instances share a
/// layout: the same number of items, of equal sizes, that begin and end in the same order. Its
/// other lifetimes, and holes in frames, are filled as `place` does.
/// `beside`: bytes of the arena that other things hold all the time.
FramedPlacement place_in_frames(const std::vector<Lifetime>& lifetimes,
                                const std::vector<FrameItem>& items, int64_t alignment,
                                int64_t beside = 0);

}  // namespace viaduct
