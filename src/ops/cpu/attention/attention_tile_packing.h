#pragma once
// Keys and values of attention on tiles, packed: whole documents for the forward, runs of keys for
// the backward.

#include <algorithm>
#include <vector>

#include "ops/cpu/attention/attention_heads.h"
#include "ops/cpu/attention/attention_launch.h"
#include "ops/cpu/attention/attention_tile_blocks.h"

namespace viaduct::cpu {

// Keys of a packing task.
inline constexpr int64_t kPackKeys = 512;
// Gap between strips that run along the keys, so that their distance is not a power of two.
inline constexpr int64_t kStripGap = 64;

/// How an operand of one document and key-value head is packed.
enum class Packing {
  key_columns,  // columns are keys, contracted the width
  key_depth,    // contracted keys, columns are the width
};

/// Documents and heads of k or v in one packing: a part of the workspace.
class PackedOperand {
 public:
  /// Room for `documents` with `tokens` together, of `heads`; offsets are read when the operand is
  /// used.
  PackedOperand(const Tensor& tensor, Packing packing, int64_t documents, int64_t tokens,
                int64_t heads)
      : tensor_(tensor), packing_(packing) {
    const int64_t width = tile_room(tensor.dim(2));
    // Each document is padded to whole steps.
    const int64_t keys = tile_room(tokens + documents * (kTileDepth - 1));
    elements_ = heads * (keys * width + documents * width / kTileRows * kStripGap);
  }

  int64_t bytes() const { return round_up_to(elements_ * 2, 64); }

  void place(void* data, const int32_t* offsets, int64_t documents) {
    data_ = static_cast<bfloat16*>(data);
    offsets_ = offsets;
    begin_.assign(1, 0);
    for (int64_t d = 0; d < documents; ++d) begin_.push_back(begin_.back() + size_of(d));
  }

  PackedKeys at(int64_t document, int64_t head) const {
    return {data_ + head * begin_.back() + begin_[static_cast<size_t>(document)],
            strip_of(document)};
  }

  /// Packs the keys [begin, begin + kPackKeys) of a document and head to head `place`.
  void pack(const TileKernels& tiles, int64_t document, int64_t head, int64_t begin,
            int64_t place) const {
    const int64_t keys = std::min(kPackKeys, keys_of(document) - begin), width = tensor_.dim(2);
    const bool by_keys = packing_ == Packing::key_columns;
    const TileSource source{tensor_at(tensor_, offsets_[document] + begin, head),
                            DType::bf16,
                            tensor_.stride(0),
                            !by_keys,
                            by_keys ? keys : width,
                            by_keys ? width : keys};
    const int64_t strip = strip_of(document);
    bfloat16* to = data_ + (at(document, place).data - data_) +
                   (by_keys ? begin / kTileRows * strip : begin / kTileDepth * kTileElements);
    tiles.pack_b(source, to, strip);
  }

 private:
  int64_t keys_of(int64_t d) const { return offsets_[d + 1] - offsets_[d]; }
  int64_t strip_of(int64_t d) const {
    return packing_ == Packing::key_columns ? tile_room(tensor_.dim(2)) * kTileRows
                                            : tile_room(keys_of(d)) * kTileRows + kStripGap;
  }
  int64_t size_of(int64_t d) const {
    const int64_t width = tile_room(tensor_.dim(2));
    return tile_room(keys_of(d)) * width + width / kTileRows * kStripGap;
  }

  const Tensor& tensor_;
  Packing packing_;
  int64_t elements_ = 0;
  bfloat16* data_ = nullptr;
  const int32_t* offsets_ = nullptr;
  std::vector<int64_t> begin_;  // of the documents of a head, in elements
};

/// Keys and values of a run as tiles, in the scratch of a task, where its products find them in the
/// L2 cache.
struct RunOperands {
  int64_t keys_strip, values_strip, transposed_strip;  // elements
  int64_t keys, values, transposed;                    // elements of all strips

  RunOperands(int64_t run, int64_t width, int64_t value_width)
      : keys_strip(tile_room(width) * kTileRows),
        values_strip(tile_room(value_width) * kTileRows),
        transposed_strip(tile_room(run) * kTileRows + kStripGap),
        keys(tile_room(run) * tile_room(width)),
        values(tile_room(run) * tile_room(value_width)),
        transposed(tile_room(width) / kTileRows * transposed_strip) {}

  int64_t bytes() const { return (keys + values + transposed) * 2; }

  /// Packs the keys [begin, end) of a head to `to` and gives them to `problem`.
  void pack(const TileKernels& tiles, const AttentionHead& head, int64_t begin, int64_t end,
            bfloat16* to, TileBackward& problem) const {
    const int64_t count = end - begin;
    const auto* k = static_cast<const bfloat16*>(head.k) + begin * head.k_token;
    const auto* v = static_cast<const bfloat16*>(head.v) + begin * head.v_token;
    tiles.pack_a({k, DType::bf16, head.k_token, false, count, head.width}, to, keys_strip);
    problem.keys = {to, keys_strip};
    to += keys;
    tiles.pack_a({v, DType::bf16, head.v_token, false, count, head.value_width}, to, values_strip);
    problem.values = {to, values_strip};
    to += values;
    tiles.pack_a({k, DType::bf16, head.k_token, true, head.width, count}, to, transposed_strip);
    problem.transposed = {to, transposed_strip};
  }
};

}  // namespace viaduct::cpu
