#pragma once
// Adafactor (Shazeer and Stern 2018, arXiv 1804.04235): of the squared gradients of a logical
// matrix it keeps the means of rows and of columns, of a vector each one. It has no momentum.

#include <map>
#include <memory>
#include <vector>

#include "comm/parallel_groups.h"
#include "ops/adafactor.h"
#include "optim/optimizer.h"

namespace viaduct {

/// Terms: AdafactorMomentsArgs and AdafactorUpdateArgs.
struct AdafactorSettings {
  double clip_threshold = 1, decay_rate = -0.8;
  double epsilon1 = 1e-30, epsilon2 = 1e-3;
  bool scale_parameter = true;  // steps are relative to the root mean square of a tensor's values
  bool relative_step = false;
  double weight_decay = 0.1;  // of parameters that decay (matrices)
  /// Token table and head have the learning rate of StepScalar::decoupled_learning_rate.
  bool decoupled_rate = false;
};

class Adafactor final : public Optimizer {
 public:
  /// Means of zero, FP32. Each rank that updates a part of a matrix has the means of all its rows
  /// and columns; ranks reduce these and nothing larger. ConfigError for a logical tensor of more
  /// than two dims.
  Adafactor(OpContext& context, const PrecisionRecipe& recipe, ParameterStore& store,
            AdafactorSettings settings, const ParallelGroups& groups);

 private:
  /// What is reduced over the ranks that hold parts of one logical tensor.
  struct LogicalTensor {
    const Parameter* parameter = nullptr;
    const Part* part = nullptr;  // one of its parts; null: this rank has only padding
    AdafactorMatrix matrix;      // rows 0: a vector
  };
  /// A rectangle of a logical matrix in a run, or some elements of a vector.
  struct Place {
    size_t tensor = 0;     // of the group
    Range range;           // of the run's elements
    AdafactorPiece piece;  // without its gradient
    bool counts = true;    // counted in sums over ranks: one of the ranks with equal copies
  };
  /// The parameters of a buffer.
  struct Group {
    size_t chunk = 0;
    std::shared_ptr<Communicator> ranks, tensor_ranks;  // that hold parts of the same tensors
    std::vector<LogicalTensor> tensors;
    int64_t values = 0;                           // places for rows and columns of all matrices
    Tensor moments;                               // f32 [values]
    std::map<size_t, std::vector<Place>> places;  // by run
  };

  Group make_group(OpContext& context, const ParameterBuffer& buffer, const ParallelGroups& groups);
  static void add_tensors(Group& group, const Parameter& parameter);
  void add_places(Group& group, size_t i) const;
  void add_shared_states();

  void update_chunk(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk) override;
  void update_runs(OpContext&, const Tensor&, const ChunkRuns&) override {}
  void update_group(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk,
                    const Group& group);
  /// Calls f(i, place) for the places of the group's runs, with the blocks named by `uses` on the
  /// device, and end() after the runs of a bucket, while they are on the device.
  void for_places(const ChunkRuns& chunk, const Group& group, const RunUse& uses,
                  FunctionRef<void(size_t i, const Place&)> f, FunctionRef<void()> end);
  /// Updates the means of the group's matrices; returns their factors, f32 [values].
  Tensor factors(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk,
                 const Group& group);
  /// States of sums, f64 [tensors · n, kReproducibleSumSize]: of each logical tensor the squares of
  /// its direction and, with scale_parameter (n = 2), of its masters. Updates the mean squares of
  /// vectors.
  Tensor squares(OpContext& context, const Tensor& scalars, const ChunkRuns& chunk,
                 const Group& group, const Tensor& factors);
  AdafactorPiece piece_of(size_t i, const Place& place) const;
  Tensor second_of(size_t i, const Place& place) const;

  AdafactorSettings settings_;
  size_t second_ = 0;  // of states(): of vectors
  std::vector<Group> groups_;
};

}  // namespace viaduct
