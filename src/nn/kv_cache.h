#pragma once
// Keys and values of the tokens seen so far, for generation: one sequence, a fixed capacity, one
// pair of tensors a layer.

#include <vector>

#include "ops/dispatch.h"

namespace viaduct {

class KeyValueCache {
 public:
  KeyValueCache(Device& device, int64_t layers, int64_t capacity, int64_t kv_heads,
                int64_t head_dim, DType dtype);

  struct View {
    Tensor k, v;               // [tokens so far, K, D]
    Tensor offsets, diagonal;  // i32 [2] and [1], as attention wants them
  };
  /// Writes the keys and values of new tokens ([T, K, D]) of `layer` behind those of earlier steps
  /// and returns all of them.
  View append(OpContext& context, int64_t layer, const Tensor& k, const Tensor& v);
  /// The tokens of the current step are complete in every layer: the next step appends after them.
  void advance(int64_t tokens) { length_ += tokens; }

  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }

 private:
  Device& device_;
  int64_t capacity_, length_ = 0;
  std::vector<Tensor> keys_, values_;
  Tensor offsets_, diagonal_;
};

}  // namespace viaduct
