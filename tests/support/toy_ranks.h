#pragma once
// Data-parallel training of a few toy parameters on ranks that are threads: gradients are a
// function of (step, rank, micro-batch, parameter, element), so that sums depend on their order.

#include <functional>
#include <string>
#include <vector>

#include "optim/gradient_norm.h"
#include "optim/make_optimizer.h"

namespace viaduct::test {

struct ToyRun {
  Mesh mesh{{1, 1, 1, 2, 1}};
  int instances = 1;
  std::string recipe = "bf16_mixed";
  StoreSettings store;
  OptimizerSettings optimizer;
  /// A test's changes to the formats of the recipe.
  std::function<void(PrecisionRecipe&)> formats;
  int steps = 3, micro_batches = 2;
  int chunks = 1;           // chunks a rank, with equal numbers of parameters
  bool last_first = false;  // the forward uses the last parameters first
  /// With sharded weights the forward announces which layers (two parameters each) come next.
  bool plans = true;
  /// A test's changes to the parameters of a rank before the store is made.
  std::function<void(std::vector<Parameter>&, const ParallelGroups&)> change;
};

/// The results of a rank.
struct ToyRank {
  std::string weights, gradients;  // bytes, parameter by parameter, gathered
  std::string masters;             // FP32 values of this rank's runs
  std::vector<double> norms;
  int64_t buffer_elements = 0, run_elements = 0;
  int64_t weight_bytes = 0, gradient_bytes = 0, master_bytes = 0, moment_bytes = 0;
  StepRecord record;  // of the last step

  /// The collectives of one kind over more than one rank.
  std::vector<CollectiveRecord> collectives(const std::string& operation) const;
};

/// Shapes of the toy parameters: matrices and vectors in turn.
std::vector<Shape> toy_shapes();
int64_t toy_elements();

/// FP32 weights in the form of `ToyRank::weights`, by parameter.
std::vector<std::vector<double>> toy_weights(const std::string& bytes);

/// The gradient that one backward contributes.
float toy_gradient(int step, int rank, int micro_batch, int parameter, int64_t element);

/// The ranks' outcomes, by rank.
std::vector<ToyRank> train_toy(const ToyRun& run);

}  // namespace viaduct::test
