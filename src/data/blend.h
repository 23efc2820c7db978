#pragma once
// Blends of data sets: the data set of each sample and the sample's number in it, as in Megatron's
// BlendedDataset.

#include <cstdint>
#include <vector>

namespace viaduct {

struct BlendIndex {
  std::vector<int16_t> dataset_index;  ///< [size] data set of each sample
  std::vector<int64_t>
      dataset_sample_index;  ///< [size] its number among the samples taken of that data set
};

/// Greedy: sample i comes from the data set that is furthest behind its share, argmax of weight ·
/// max(i, 1) − taken; ties go to the first. Weights are normalized (a second time, as in Megatron).
BlendIndex build_blend_index(const std::vector<double>& weights, int64_t size);

/// Takes each data set's `sizes[i]` samples exactly once, spread in proportion to the sizes.
BlendIndex build_exhaustive_blend_index(const std::vector<int64_t>& sizes);

/// Samples that a data set of normalized weight `weight` contributes to `size`: ceil(ceil(size ·
/// weight) · (1 + surplus)).
int64_t blend_share(double weight, int64_t size, double surplus);

}  // namespace viaduct
