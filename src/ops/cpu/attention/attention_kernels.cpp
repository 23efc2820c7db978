// instruction sets: portable avx2 avx512
// Kernels of attention, compiled per instruction set: parts common to forward and backward, and the
// table.

#include <math.h>

#include "ops/cpu/attention/attention_bias_rows.h"
#include "ops/cpu/attention/attention_codes.h"
#include "ops/cpu/attention/attention_kernels.h"
#include "ops/cpu/attention/attention_rules.h"
#include "ops/cpu/attention/block_product.h"
#include "ops/cpu/simd/simd.h"
#include "ops/cpu/simd/simd_philox.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

constexpr int64_t kRows = kAttentionRows;
constexpr int64_t kKeys = kAttentionKeys;

/// to[i] = factor · from[i] in f32.
template <class T>
inline void widen(const T* from, float factor, int64_t size, float* to) {
  const Vec f = set1(factor);
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) store(to + i, mul(f, load(from + i)));
  if (i < size) {
    const Mask k = first(size - i);
    store(to + i, mul(f, load(from + i, k)), k);
  }
}

template <class T>
inline void narrow(const float* from, int64_t size, T* to) {
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) store(to + i, load(from + i));
  if (i < size) {
    const Mask k = first(size - i);
    store(to + i, load(from + i, k), k);
  }
}

/// A block of rows of a head and the keys that each row sees.
struct RowBlock {
  int64_t row, count, padded;                  // padded: whole vectors
  int64_t first_keys[kRows], end_keys[kRows];  // row r sees keys [first_keys, end_keys)

  RowBlock(const AttentionHead& head, int64_t begin)
      : row(begin), count(smaller(kRows, head.rows() - begin)) {
    padded = (count + kLanes - 1) / kLanes * kLanes;
    for (int64_t r = 0; r < padded; ++r) {
      const int64_t i = (row + smaller(r, count - 1)) / head.group;
      first_keys[r] = first_key(head, i);
      end_keys[r] = end_key(head, i);
    }
  }
  // Both bounds rise with the row.
  int64_t begin() const { return first_keys[0]; }
  int64_t end() const { return end_keys[count - 1]; }
  /// Whether every row sees all of the keys [begin, end).
  bool sees_all(int64_t begin, int64_t end) const {
    return first_keys[count - 1] <= begin && end <= end_keys[0];
  }
  int64_t query(const AttentionHead& head, int64_t r) const { return (row + r) / head.group; }
  int64_t member(const AttentionHead& head, int64_t r) const { return (row + r) % head.group; }
};

/// Bounds of a block of keys for a vector of rows, counted from the block's first key.
struct Borders {
  float low[kRows], high[kRows];  // row r sees j iff low ≤ j < high

  Borders(const RowBlock& rows, int64_t begin, int64_t count) {
    for (int64_t r = 0; r < rows.padded; ++r) {
      low[r] = static_cast<float>(smaller(larger_of(rows.first_keys[r] - begin, 0), count));
      high[r] = static_cast<float>(smaller(larger_of(rows.end_keys[r] - begin, 0), count));
    }
  }
  /// `seen` where row r + lane sees key j, else `hidden`.
  Vec choose(int64_t r, int64_t j, Vec seen, Vec hidden) const {
    const Vec key = set1(static_cast<float>(j));
    return select(less(key, load(low + r)), hidden,
                  select(less(key, load(high + r)), seen, hidden));
  }
};

/// Rows of q or d_out, times `factor`: as [row][width] if requested, and transposed [width][kRows]
/// with zeros in the padding.
template <class T>
void pack_rows(const AttentionHead& head, const RowBlock& rows, const void* from, int64_t token,
               int64_t member, int64_t width, float factor, float* natural, bool keep_natural,
               float* transposed) {
  const T* data = static_cast<const T*>(from);
  for (int64_t r = 0; r < rows.count; ++r) {
    float* line = keep_natural ? natural + r * width : natural;
    widen(data + rows.query(head, r) * token + rows.member(head, r) * member, factor, width, line);
    for (int64_t i = 0; i < width; ++i) transposed[i * kRows + r] = line[i];
  }
  for (int64_t r = rows.count; r < rows.padded; ++r) {
    for (int64_t i = 0; i < width; ++i) transposed[i * kRows + r] = 0;
  }
}

template <class T>
void widen_keys(const void* from, int64_t token, int64_t begin, int64_t count, int64_t width,
                float* to) {
  const T* data = static_cast<const T*>(from) + begin * token;
  for (int64_t j = 0; j < count; ++j) widen(data + j * token, 1.0f, width, to + j * width);
}

/// The distance of the block's last key and its first row: those of key j and row r are
/// count − 1 − j + r less.
inline int64_t largest_distance(const AttentionHead& head, const RowBlock& rows, int64_t begin,
                                int64_t count) {
  return begin + count - 1 - rows.row - head.diagonal;
}

/// scores[keys][kRows] += their bias, for the keys from `begin`.
void add_bias(const AttentionHead& head, const RowBlock& rows, int64_t begin, int64_t count,
              float* scores) {
  float line[kKeys + kRows];
  bias_line(head, largest_distance(head, rows, begin, count), -1, count - 1 + rows.padded, 1.0f,
            line);
  for (int64_t j = 0; j < count; ++j)
    add_vectors(line + count - 1 - j, rows.padded, scores + j * kRows);
}

/// Adds gradients [keys][kRows] of the scores to that of their bias.
void add_bias_gradients(const AttentionHead& head, const RowBlock& rows, int64_t begin,
                        int64_t count, const float* gradients) {
  float line[kKeys + kRows] = {};
  for (int64_t j = 0; j < count; ++j)
    add_vectors(gradients + j * kRows, rows.padded, line + count - 1 - j);
  add_to_bias_gradient(head, largest_distance(head, rows, begin, count), count - 1 + rows.padded,
                       1.0, line);
}

/// factors[j][r] = 0 or 1 / (1 − p) for the keys from `begin`: Philox4x32-10 of base/philox.h with
/// one counter per lane; its first word decides.
void draw_dropout(const AttentionHead& head, const RowBlock& rows, int64_t begin, int64_t count,
                  float* factors) {
  uint32_t low[kRows], high[kRows], heads[kRows];
  for (int64_t r = 0; r < rows.padded; ++r) {
    const int64_t row = smaller(r, rows.count - 1);
    const auto token = static_cast<uint64_t>(head.query_index[rows.query(head, row)]);
    low[r] = static_cast<uint32_t>(token);
    high[r] = static_cast<uint32_t>(token >> 32);
    heads[r] = static_cast<uint32_t>(head.first_head + rows.member(head, row));
  }
  const Words threshold = words(static_cast<uint32_t>(head.dropout_threshold));
  const Vec factor = set1(head.dropout_factor);
  for (int64_t r = 0; r < rows.padded; r += kLanes) {
    for (int64_t j = 0; j < count; ++j) {
      Words c0 = load_words(low + r), c1 = load_words(high + r), c3 = load_words(heads + r);
      Words c2 = words(static_cast<uint32_t>(
          head.key_position != nullptr ? head.key_position[begin + j] : begin + j));
      philox_rounds(head.dropout_key, c0, c1, c2, c3);
      store(factors + j * kRows + r, keep(c0, threshold, factor));
    }
  }
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA

#include "ops/cpu/attention/attention_backward_kernels.h"
#include "ops/cpu/attention/attention_forward_kernels.h"
#include "ops/cpu/attention/attention_one_query_kernels.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

void delta(const AttentionRows& rows, int64_t begin, int64_t end) {
  if (rows.other_dtype != rows.dtype || rows.dtype == DType::e4m3)
    return delta_of_codes(rows, begin, end);
  switch (rows.dtype) {
    case DType::bf16:
      return delta_tokens<bfloat16>(rows, begin, end);
    case DType::f16:
      return delta_tokens<float16>(rows, begin, end);
    default:
      return delta_tokens<float>(rows, begin, end);
  }
}

void merge(const AttentionRows& rows, int64_t begin, int64_t end) {
  const bool wide = rows.dtype == DType::f32;
  switch (rows.other_dtype) {
    case DType::bf16:
      return wide ? merge_tokens<float, bfloat16>(rows, begin, end)
                  : merge_tokens<bfloat16, bfloat16>(rows, begin, end);
    case DType::f16:
      return wide ? merge_tokens<float, float16>(rows, begin, end)
                  : merge_tokens<float16, float16>(rows, begin, end);
    default:
      return merge_tokens<float, float>(rows, begin, end);
  }
}

void forward(const AttentionHead& head, int64_t row, float* scratch) {
  switch (head.dtype) {
    case DType::bf16:
      return forward_rows<bfloat16>(head, row, scratch);
    case DType::f16:
      return forward_rows<float16>(head, row, scratch);
    case DType::e4m3:
      return forward_rows<E4m3>(head, row, scratch);
    default:
      return forward_rows<float>(head, row, scratch);
  }
}

void backward(const AttentionHead& head, int64_t begin, int64_t end, float* scratch) {
  switch (head.dtype) {
    case DType::bf16:
      return backward_keys<bfloat16>(head, begin, end, scratch);
    case DType::f16:
      return backward_keys<float16>(head, begin, end, scratch);
    case DType::e4m3:
      return head.out_dtype == DType::e5m2 ? backward_keys<E4m3, E5m2>(head, begin, end, scratch)
                                           : backward_keys<E4m3, E4m3>(head, begin, end, scratch);
    default:
      return backward_keys<float>(head, begin, end, scratch);
  }
}

void one_query_of(const AttentionHead& head, float* scratch) {
  switch (head.dtype) {
    case DType::bf16:
      return one_query<bfloat16>(head, scratch);
    case DType::f16:
      return one_query<float16>(head, scratch);
    default:
      return one_query<float>(head, scratch);
  }
}

}  // namespace

const AttentionKernels attention_kernels{forward, one_query_of, backward, delta, merge};

}  // namespace viaduct::cpu::VIADUCT_ISA
