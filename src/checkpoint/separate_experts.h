#pragma once
// Hugging Face folders in the form in which transformers 5 computes: the gate and up projections of
// all experts of a layer in one tensor, "experts.gate_up_proj" [E, 2 F, H], and "experts.down_proj"
// [E, H, F]. They are seen as the matrices of single experts, under the names that the family's
// published files have; so is a router whose name differs between the two forms (Mixtral).

#include <memory>
#include <unordered_map>

#include "checkpoint/derived_source.h"
#include "model/model_config.h"

namespace viaduct {

class SeparateExperts : public DerivedSource {
 public:
  /// Whether `stored` has such tensors, for a family whose own files have single experts.
  static bool are_together(const TensorSource& stored, const TensorNames& names);

  SeparateExperts(std::unique_ptr<TensorSource> stored, const TensorNames& names);

  Tensor tensor(const std::string& name) const override;
  void read_into(const std::string& name, const Piece& piece,
                 std::byte* destination) const override;
  const TensorInfo* find(const std::string& name) const override;

 private:
  struct Place {
    size_t info = 0;      // in infos_
    std::string stored;   // the name there
    int64_t expert = -1;  // −1: the tensor itself
    int64_t row = 0;      // the first one of the expert's matrix
  };

  void add(TensorInfo info, Place place);

  std::unordered_map<std::string, Place> places_;
};

}  // namespace viaduct
