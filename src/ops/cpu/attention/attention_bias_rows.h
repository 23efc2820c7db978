#pragma once
// Part of the attention kernels: the bias of a block of scores. Along a row of scores, or across
// rows, the distance of key and query changes by one, so that a block reads runs of one line of
// numbers. Compiled per instruction set.

#include "ops/cpu/attention/attention_rules.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// Where the distance `at` stands in a head's vector: those beyond its ends share them.
inline int64_t bias_place(const AttentionHead& head, int64_t distance) {
  return smaller(larger_of(distance, -head.bias_reach), head.bias_reach) + head.bias_reach;
}

/// line[x] = factor · the bias of the distance first + step · x, x < count.
inline void bias_line(const AttentionHead& head, int64_t first, int64_t step, int64_t count,
                      float factor, float* line) {
  for (int64_t x = 0; x < count; ++x)
    line[x] = factor * head.bias[bias_place(head, first + step * x)];
}

/// The gradient of the bias += factor · line, whose entries have the distances first − x.
inline void add_to_bias_gradient(const AttentionHead& head, int64_t first, int64_t count,
                                 double factor, const float* line) {
  for (int64_t x = 0; x < count; ++x)
    head.d_bias[bias_place(head, first - x)] += factor * static_cast<double>(line[x]);
}

/// to[0, count) += from[0, count): whole vectors.
inline void add_vectors(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) store(to + i, add(load(to + i), load(from + i)));
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
