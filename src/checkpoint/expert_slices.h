#pragma once
// A source in which some tensors have all experts of a layer, or other names, seen through a list
// of the matrices of single experts. Which they are, and what they are called, the list says:
// fused_experts.h, separate_experts.h and text_half_weights.h make it.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/derived_source.h"

namespace viaduct {

/// A tensor that is seen: a stored one, or of a stored [E, rows, …] those rows of one expert that
/// begin at `row`.
struct ExpertSlice {
  TensorInfo info;
  std::string stored;   // the name there
  int64_t expert = -1;  // −1: the stored tensor itself
  int64_t row = 0;
};

class ExpertSlices : public DerivedSource {
 public:
  /// IoError if two slices have one name.
  ExpertSlices(std::unique_ptr<TensorSource> stored, const std::vector<ExpertSlice>& slices);

  Tensor tensor(const std::string& name) const override;
  void read_into(const std::string& name, const Piece& piece,
                 std::byte* destination) const override;
  const TensorInfo* find(const std::string& name) const override;

 private:
  struct Place {
    size_t info = 0;  // in infos_
    std::string stored;
    int64_t expert = -1, row = 0;
  };
  const Place& place_of(const std::string& name) const;

  std::unordered_map<std::string, Place> places_;
};

/// The shape of so many tensors of shape `rest`, one after the other.
Shape with_first(int64_t size, const Shape& rest);

}  // namespace viaduct
