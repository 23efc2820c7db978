#pragma once
// Keys and values of cross attention, for generation: those of each sequence's input are computed
// in the pass that encodes it, and all later passes read them.

#include <cstdint>
#include <vector>

#include "ops/dispatch.h"

namespace viaduct {

/// Sizes of a cache: the part of the model that this rank holds, and the inputs.
struct CrossCacheShape {
  std::vector<int64_t> layers;                        // global numbers of the decoder's blocks
  int64_t kv_heads = 0, head_dim = 0, value_dim = 0;  // held by this rank
  DType dtype = DType::f32;
  std::vector<int64_t> lengths;  // tokens of the input of each sequence
};

class CrossCache {
 public:
  /// Allocates all of it.
  CrossCache(Device& device, CrossCacheShape shape);

  /// Begins a pass whose encoder's rows are the inputs of these sequences, one after the other;
  /// none: a pass without the encoder.
  void begin_step(std::vector<int64_t> sequences) { encoded_ = std::move(sequences); }
  /// Keeps the keys and values of a layer ([T', K, D] and [T', K, Dv] of the pass's T' tokens of
  /// the encoder; what is beyond the inputs is filling). ShapeError if this rank does not hold the
  /// layer, or for too few tokens.
  void put(OpContext& context, int64_t layer, const Tensor& k, const Tensor& v);

  struct View {
    Tensor k, v;  // [tokens of all inputs, K, D] and [., K, Dv], sequence after sequence
  };
  /// Those of inputs that no pass has encoded are undefined. ShapeError as `put`.
  View view(int64_t layer) const;

  /// Where the inputs begin and end: i32 [sequences + 1].
  const Tensor& offsets() const { return offsets_; }
  int64_t length(int64_t sequence) const {
    return shape_.lengths.at(static_cast<size_t>(sequence));
  }
  int64_t longest() const;

 private:
  size_t place_of(int64_t layer) const;
  void write(OpContext& context, const Tensor& from, const Tensor& rows) const;

  CrossCacheShape shape_;
  std::vector<int64_t> begins_;  // of each input among all tokens
  std::vector<int64_t> encoded_;
  std::vector<Tensor> keys_, values_;  // [tokens, K, D] and [., K, Dv], by place in shape_.layers
  Tensor offsets_;
};

}  // namespace viaduct
