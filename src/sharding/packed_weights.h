#pragma once
// Weights as the tiles that matrix products read (ops/weight_tiles.h), beside the canonical ones:
// for each multiplied parameter one form for the forward and, where there are gradients, one for
// the data gradient. A form is made at its first use in a generation, from the whole canonical
// weight; all micro-batches of the step read it.

#include <map>
#include <vector>

#include "nn/access.h"
#include "sharding/by_path.h"

namespace viaduct {

class PackedWeights {
 public:
  /// Memory for the forms of those of `parameters` that are multiplied, on the context's device,
  /// whose ops must read tiles of `weight`.
  PackedWeights(const OpContext& context, const std::vector<const Parameter*>& parameters,
                DType weight, bool with_gradients);

  /// The form of `use`; undefined where there is none. `canonical`: the weight of `generation`.
  Tensor form(const Parameter& parameter, WeightUse use, const Tensor& canonical,
              int64_t generation);

 private:
  struct Form {
    Tensor tiles;
    int64_t generation = -1;  // whose weight it holds; -1: of none
  };

  OpContext context_;
  std::map<const Parameter*, std::map<WeightUse, Form>, ByPath> forms_;
};

}  // namespace viaduct
