#pragma once
// The layers of a model that lower bounds count: those of one kind, of which dry runs of one and
// two layers can be made. A model may have others: without experts, with another window, left in 16
// bits, of multi-token prediction. What they cost is left out, so that a bound stays one.

#include <cstdint>

#include "run/setup.h"

namespace viaduct {

class CountedLayers {
 public:
  CountedLayers() = default;
  /// Chooses the kind: layers with experts where some have none, and the shortest window if it is
  /// much shorter than a row, else the most frequent one.
  explicit CountedLayers(const RunSetup& whole);

  /// How many of the model's layers count: all of this kind, and those that certainly take no less.
  int64_t count() const { return count_; }
  /// Makes a run of `layers` layers of this kind of a run of the whole model.
  void reduce(RunSetup& setup, int64_t layers) const;

 private:
  int64_t count_ = 0;
  int64_t window_ = 0;
  int64_t experts_ = 0;  // 1: the layers have experts
};

}  // namespace viaduct
