#pragma once
// Muon: hidden matrices move by the orthogonal factor of their momentum, everything else (token
// table, head, norms, biases) by AdamW.

#include "comm/parallel_groups.h"
#include "optim/adamw.h"
#include "optim/matrix_exchange.h"
#include "optim/optimizer_kind.h"

namespace viaduct {

struct MuonSettings {
  double momentum = 0.95;
  bool nesterov = false;
  int steps = 5;  // Newton–Schulz iterations
  MuonScale scale_mode = MuonScale::spectral;
  double extra_scale = 1;
};

/// The factor for a matrix [out, in].
double muon_scale(const MuonSettings& settings, int64_t out, int64_t in);

class Muon final : public AdamW {
 public:
  /// Momenta of zero for the hidden matrices, in the recipe's format of first moments, and moments
  /// for the others.
  Muon(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
       AdamWSettings adamw, MuonSettings settings, const ParallelGroups& groups);

  /// Trained matrices of products other than the head, and low-rank factors beside them; those of
  /// experts stay with Adam.
  static bool moves(const Parameter& parameter);

 private:
  /// AdamW bucket by bucket, then matrices: their momenta bucket by bucket, the orthogonal factors
  /// of a buffer together, and their masters bucket by bucket.
  void update_chunk(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk) override;
  void update_matrices(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk,
                       const MatrixExchange& exchange);
  /// Each logical matrix of a parameter's storage becomes its update.
  void orthogonalize(OpContext& context, const Parameter& parameter, const Tensor& storage) const;
  /// What this rank has of a logical matrix.
  struct Box {
    const Part& part;
    Tensor values;  // rows of the storage
  };
  /// The boxes of the logical matrix of the part `of` on this and the other tensor ranks.
  void orthogonalize_matrix(OpContext& context, const Part& of,
                            const std::vector<Box>& boxes) const;

  MuonSettings muon_;
  double weight_decay_;
  std::shared_ptr<Communicator> tensor_ranks_;
  std::vector<MatrixExchange> exchanges_;  // one a buffer
  size_t momentum_;                        // of states()
};

}  // namespace viaduct
