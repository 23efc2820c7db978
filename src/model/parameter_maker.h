#pragma once
// Makes the parameters of one model: shapes, parts under Hugging Face's names, cuts along the
// tensor axis, initialization. Parameters have equal shapes and come in the same order on all
// tensor ranks.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/family.h"
#include "model/model_place.h"
#include "nn/linear.h"
#include "nn/moe/expert_terms.h"
#include "nn/norm.h"
#include "nn/parameter.h"

namespace viaduct {

/// Whether the family has gate and up of an expert in one tensor, names.expert_up, as neighbouring
/// columns (gate, up, gate, up, …), or one after the other (names.expert_halves), and its experts'
/// matrices as [in, out] without ".weight" (GPT-OSS; Llama 4). On disk such a tensor has all
/// experts (checkpoint/fused_experts.h).
inline bool fuses_experts(const TensorNames& names) {
  return names.expert_gate.empty() && !names.expert_up.empty();
}
/// Whether the expert that all tokens use has gate and up in one tensor, names.shared_up, gate
/// first (Granite).
inline bool fuses_shared_expert(const TensorNames& names) {
  return names.shared_gate.empty() && !names.shared_up.empty();
}
/// The end of the name of such a tensor's bias.
inline constexpr const char* kExpertBiasSuffix = "_bias";
/// Of the bias of a router's choice, the whole name; "{}" is the layer.
inline std::string load_bias_name(const TensorNames& names) {
  return names.load_bias.empty() ? names.router + ".e_score_correction_bias" : names.load_bias;
}

using ParameterPointer = std::shared_ptr<const Parameter>;

/// The gradient of a replicated parameter of the residual stream on a tensor rank: of all tokens,
/// or, under sequence parallelism, of the rank's tokens.
ReplicaGradient stream_gradient(const LayerSettings& settings);

class ParameterMaker {
 public:
  /// `frozen`: none of its parameters is trained. The other arguments must outlive it.
  ParameterMaker(const ModelConfig& config, const TensorNames& names, const LayerSettings& settings,
                 const ModelPlace& place, bool frozen = false)
      : config_(config), names_(names), settings_(settings), place_(place), frozen_(frozen) {}

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
    int64_t logical_rows = 0;  // of the logical tensor; 0: only these
    // Where they do not lie together: this many of them do, and the next ones are `group_rows` rows
    // of the logical tensor after these. 0: all lie together.
    int64_t group_units = 0, group_rows = 0;

    /// Where a unit begins in the logical tensor.
    int64_t row_of(int64_t unit) const {
      if (group_units == 0) return first_row + unit * unit_rows;
      return first_row + unit / group_units * group_rows + unit % group_units * unit_rows;
    }
  };
  /// A layer whose output features are the pieces in order, each cut over the tensor ranks
  /// separately. If a piece has fewer units than there are ranks, neighbouring ranks hold the same
  /// units. `block`: the block that it is in, whose products the recipe may quantize; absent: they
  /// are not quantized.
  Linear column_linear(LinearRole role, const std::string& path, const std::vector<Piece>& pieces,
                       int64_t in, bool bias, std::optional<int64_t> block = {}) const;
  /// A layer whose input features are cut over the tensor ranks. It writes to the residual stream,
  /// so its initial weights are divided by sqrt(2 L) (GPT-2). `block`: as above.
  Linear row_linear(LinearRole role, const std::string& path, const std::string& name, int64_t out,
                    int64_t in, bool bias, std::optional<int64_t> block = {}) const;

  /// A matrix with these rows one after the other and `in` columns. Each tensor rank holds it whole
  /// and multiplies its rows of the stream with it.
  struct Rows {
    std::string name;  // without suffix
    int64_t rows = 0;
  };
  ParameterPointer replicated_matrix(const std::string& path, const std::vector<Rows>& pieces,
                                     int64_t in) const;
  /// The low-rank terms of such a matrix, or of a router; none if no module of it is adapted.
  LowRankTerms replicated_terms(const std::string& path, const std::vector<Rows>& pieces,
                                int64_t in) const;
  /// A logical tensor under exactly this name, which each tensor rank holds whole and has the whole
  /// gradient of: of rank 1 a vector, which begins as 0; of others a matrix of its first dim's
  /// rows.
  /// `transposed`: the storage of a matrix is [in, out] of it.
  ParameterPointer whole_tensor(const std::string& path, const std::string& name,
                                const Shape& logical, bool transposed = false) const;
  /// A number that all features of the layer share, under exactly this name.
  ParameterPointer shared_number(const std::string& path, const std::string& name,
                                 double value) const;
  /// A number under exactly this name that no update moves.
  ParameterPointer fixed_number(const std::string& path, const std::string& name,
                                double value) const;
  /// [buckets, heads here] of a bias of attention's scores by distance (relative_table.cpp).
  ParameterPointer relative_table(std::string path, const std::string& name, int64_t buckets) const;
  /// A logit for each head of this rank, 0 at start, under exactly this name.
  ParameterPointer head_logits(const std::string& path, const std::string& name) const;

  /// The weight [E, H] of a router, which each tensor rank holds whole.
  ParameterPointer router(const std::string& path, const std::string& name, int64_t experts) const;
  /// The bias [E] of a router's product.
  ParameterPointer router_bias(const std::string& path, const std::string& name) const;
  /// The bias [E] that balances a router's experts, under the whole name `name`.
  ParameterPointer load_bias(std::string path, const std::string& name, int64_t experts,
                             double rate) const;
  /// The matrices of this rank's experts, one after the other: [E' · Σ F, H] from the names of the
  /// projections into F features each, and [E' · H, F] from the name of the one back. "{}" of a
  /// name is the expert. Of a family that fuses experts: rows gate, up, gate, up, … from one name.
  /// `block`: as for linear layers.
  ParameterPointer experts_up(const std::string& path, const std::vector<std::string>& names,
                              std::optional<int64_t> block) const;
  ParameterPointer experts_down(const std::string& path, const std::string& name,
                                std::optional<int64_t> block) const;
  /// The low-rank terms of these matrices; none if no module of the layer's experts is adapted.
  /// `joined`: the module that gate and up make together (expert_adapters.h), or empty. ConfigError
  /// unless all experts have the same.
  ExpertTerms experts_up_terms(const std::string& path, const std::vector<std::string>& names,
                               const std::string& joined) const;
  ExpertTerms experts_down_terms(const std::string& path, const std::string& name) const;
  /// The weights [heads, D] of the norms of heads, of which each tensor rank holds those of its
  /// heads: one logical tensor or, where `name` has a "{}", one of each head.
  ParameterPointer head_norms(const std::string& path, const std::string& name,
                              int64_t heads) const;
  /// The bias [V] of the head, of which each tensor rank holds the run of the head's rows.
  ParameterPointer vocabulary_bias(std::string path, const std::string& name, int64_t rows) const;
  /// The biases of this rank's experts, one after the other, `features` each; of a family that
  /// fuses experts.
  ParameterPointer experts_bias(const std::string& path, const std::string& name,
                                int64_t features) const;

  /// A norm over `size` features under the family's name for it; without weights where the name is
  /// empty (OLMo). `epsilon`: 0: the model's.
  Norm norm(const std::string& path, const std::string& name, int64_t size, NormKind kind,
            ReplicaGradient gradient, double epsilon = 0) const;

 private:
  /// A tensor rank's run of the vocabulary: padded rows, and how many of them are not padding.
  struct VocabularyRun {
    int64_t first = 0, here = 0, filled = 0;
  };
  VocabularyRun vocabulary_run(int64_t rows) const;
  /// Frozen where the run has adapters, and its module is not one of those that train beside them.
  /// `name`: of a logical tensor of it; of a table of which a rank may have no part. ConfigError if
  /// a part of it has no name.
  ParameterPointer share(Parameter p, std::string name = "") const;
  /// The low-rank terms of a weight made of these pieces (of a row-parallel one: of one), which
  /// begin at these rows of its storage; none if no module of them is adapted.
  struct AdaptedPiece {
    const std::string& module;  // Hugging Face's
    AdapterShape shape;
    std::vector<Part> b;        // of its B, from storage row 0 on
    std::vector<Part> m;        // of its magnitudes, if adapters have them
    int64_t first_feature = 0;  // of y here
  };
  LowRankTerms terms(const std::string& path, const std::vector<AdaptedPiece>& pieces,
                     const Parameter& weight, bool cut_inputs) const;
  LowRankTerms column_terms(const std::string& path, const std::vector<Piece>& pieces,
                            const Parameter& weight) const;
  LowRankTerms row_terms(const std::string& path, const std::string& name,
                         const Parameter& weight) const;
  /// What expert_terms make terms of: an adapted module of each expert.
  struct ExpertPiece {
    std::string module;  // "{}" is the expert
    AdapterShape shape;
    int64_t first_feature = 0, out = 0;  // of an expert's y here, and of the logical matrix
    struct Rows {
      int64_t first = 0, count = 0;
    };
    std::vector<Rows> rows;  // of the logical matrix that are here
  };
  /// What the layer's experts have under the name `module`; null if none is adapted.
  const AdapterShape* expert_adapter(const std::string& module) const;
  ExpertTerms expert_terms(const std::string& path, const std::vector<ExpertPiece>& pieces,
                           int64_t in, bool cut_inputs) const;
  /// A matrix of a factor of all experts here, `rows` × `columns` of each.
  Parameter expert_factor(const std::string& path, int64_t rows, int64_t columns) const;
  /// A logical tensor that each copy of an expert holds whole and sees a part of the gradient of.
  Part expert_replicated(std::string name, const Shape& shape) const;
  Parameter matrix(std::string path, int64_t rows, int64_t columns) const;
  /// The logical matrix [out, in] of an expert under `name`, or [in, out] where experts are fused,
  /// at the end of the parts of `weight`.
  Part expert_part(const std::string& name, int64_t out, int64_t in, const Parameter& weight) const;
  /// A matrix of all experts here, `rows` × `columns` of each.
  Parameter experts_matrix(const std::string& path, int64_t rows, int64_t columns,
                           std::optional<int64_t> block) const;
  Parameter vector(std::string path, int64_t size, double value) const;
  /// Whether products of a linear layer of `block` are quantized.
  bool quantizes(std::optional<int64_t> block, std::string_view path) const {
    return block && settings_.precision.quantizes(*block, config_.layers) &&
           !settings_.precision.is_plain_layer(path);
  }
  /// Of initial weights that write to the residual stream.
  double into_stream_deviation() const;
  /// A logical tensor that each tensor rank holds whole.
  Part replicated(std::string name, const Shape& shape, ReplicaGradient gradient) const;
  /// The parts of the pieces here, `in` columns each (0: a vector), one after the other.
  std::vector<Part> column_parts(const std::vector<Piece>& pieces, const std::string& suffix,
                                 int64_t in, bool transposed) const;

  const ModelConfig& config_;
  const TensorNames& names_;
  const LayerSettings& settings_;
  const ModelPlace& place_;
  bool frozen_;
};

}  // namespace viaduct
