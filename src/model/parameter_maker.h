#pragma once
// Makes the parameters of one model: shapes, parts under Hugging Face's names, what the tensor axis
// does to them, initialization.

#include <memory>
#include <string>
#include <vector>

#include "model/family.h"
#include "model/model_place.h"
#include "nn/norm.h"
#include "nn/parameter.h"

namespace viaduct {

using ParameterPointer = std::shared_ptr<const Parameter>;

class ParameterMaker {
 public:
  ParameterMaker(const ModelConfig& config, const TensorNames& names, const ModelPlace& place)
      : config_(config), names_(names), place_(place) {}

  /// "{}" of a name replaced by the layer number.
  static std::string at(const std::string& pattern, int64_t layer);

  /// [rows, columns] table of embeddings.
  ParameterPointer table(std::string path, const std::string& name, int64_t rows,
                         int64_t columns) const;

  struct Piece {
    std::string name;  // without suffix
    int64_t rows;      // output features
  };
  /// The weight of a linear layer whose output features are the pieces one after the other.
  /// `output`: it writes to the residual stream, and starts smaller by sqrt(2 L) (GPT-2).
  ParameterPointer weight(std::string path, const std::vector<Piece>& pieces, int64_t in,
                          bool output) const;
  /// The bias of the same pieces, or null.
  ParameterPointer bias(bool present, std::string path, const std::vector<Piece>& pieces) const;
  /// A norm over `size` features under the family's name for it.
  Norm norm(const std::string& path, const std::string& name, int64_t size, NormKind kind) const;

 private:
  Parameter matrix(std::string path, int64_t rows, int64_t columns) const;
  Parameter vector(std::string path, int64_t size, double value) const;

  const ModelConfig& config_;
  const TensorNames& names_;
  const ModelPlace& place_;
};

}  // namespace viaduct
