#pragma once
// Makes the parameters of one model: shapes, parts under Hugging Face's names, cuts along the
// tensor axis, initialization. Parameters have equal shapes and come in the same order on all
// tensor ranks.

#include <memory>
#include <string>
#include <vector>

#include "model/family.h"
#include "model/model_place.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/parameter.h"

namespace viaduct {

using ParameterPointer = std::shared_ptr<const Parameter>;

/// The gradient of a replicated parameter of the residual stream on a tensor rank: of all tokens,
/// or, under sequence parallelism, of the rank's tokens.
ReplicaGradient stream_gradient(const LayerSettings& settings);

class ParameterMaker {
 public:
  ParameterMaker(const ModelConfig& config, const TensorNames& names, const LayerSettings& settings,
                 const ModelPlace& place)
      : config_(config), names_(names), settings_(settings), place_(place) {}

  /// "{}" of a name replaced by the layer number.
  static std::string at(const std::string& pattern, int64_t layer);

  /// [V, H] table of which each tensor rank holds a run of rows: V is padded to a multiple of
  /// vocabulary_multiple · tp; the padding belongs to no part. `multiplied`: the head's.
  ParameterPointer vocabulary_table(std::string path, const std::string& name, int64_t rows,
                                    int64_t columns, bool multiplied) const;
  /// [rows, columns] table that each tensor rank holds whole.
  ParameterPointer position_table(std::string path, const std::string& name, int64_t rows,
                                  int64_t columns) const;

  /// Output features of a column-parallel layer that belong to one logical tensor.
  struct Piece {
    std::string name;          // without suffix
    int64_t units;             // never divided between ranks (heads, or single features) …
    int64_t unit_rows;         // … and the features of each
    int64_t first_row = 0;     // where they begin in the logical tensor (a fused one holds more)
    int64_t logical_rows = 0;  // of the logical tensor; 0: these alone
  };
  /// A layer whose output features are the pieces in order, each cut over the tensor ranks
  /// separately. If a piece has fewer units than there are ranks, neighbouring ranks hold the same
  /// units.
  Linear column_linear(LinearRole role, const std::string& path, const std::vector<Piece>& pieces,
                       int64_t in, bool bias) const;
  /// A layer whose input features are cut over the tensor ranks. It writes to the residual stream,
  /// so its initial weights are divided by sqrt(2 L) (GPT-2).
  Linear row_linear(LinearRole role, const std::string& path, const std::string& name, int64_t out,
                    int64_t in, bool bias) const;

  /// A norm over `size` features under the family's name for it.
  Norm norm(const std::string& path, const std::string& name, int64_t size, NormKind kind,
            ReplicaGradient gradient) const;

 private:
  Parameter matrix(std::string path, int64_t rows, int64_t columns) const;
  Parameter vector(std::string path, int64_t size, double value) const;
  /// A logical tensor that each tensor rank holds whole.
  Part replicated(std::string name, const Shape& shape, ReplicaGradient gradient) const;
  /// The parts of the pieces here, `in` columns each (0: a vector), one after the other.
  std::vector<Part> column_parts(const std::vector<Piece>& pieces, const std::string& suffix,
                                 int64_t in) const;

  const ModelConfig& config_;
  const TensorNames& names_;
  const LayerSettings& settings_;
  const ModelPlace& place_;
};

}  // namespace viaduct
