#pragma once
// Rows of random tokens for benchmarks: a pure function of (seed, row number), nothing stored.

#include <cstdint>

#include "data/sample.h"

namespace viaduct {

class MockDataset final : public SampleSource {
 public:
  /// `size` rows of uniform tokens in [0, vocabulary_size). Rows continue into their labels like
  /// text: labels[t] = tokens[t + 1].
  MockDataset(int64_t size, int64_t vocabulary_size, uint64_t seed, const RowSettings& settings);

  using SampleSource::get;
  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return settings_.sequence_length; }
  void get(int64_t index, Sample& sample) const override;

 private:
  int64_t size_, vocabulary_size_;
  uint64_t key_;
  RowSettings settings_;
};

}  // namespace viaduct
