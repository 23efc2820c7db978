#include "run/rules/muon_boxes.h"

#include <algorithm>

#include "base/units.h"
#include "model/family.h"
#include "model/parameter_maker.h"

namespace viaduct {
namespace {

/// Whether the run trains the matrix, or an adapter of it, in any block.
bool trains(const RunConfig& config, const std::string& pattern) {
  const PeftConfig& peft = config.peft;
  if (!peft.any()) return true;
  for (int64_t block = 0; block < config.model.num_layers.value(); ++block)
    if (peft.resolved.of(ParameterMaker::at(pattern, block)) != nullptr) return true;
  return false;
}

}  // namespace

// Of the matrices that layers are made of, only those of queries, keys and values in one have parts
// that are cut differently: where ranks share key-value heads, these are repeated.
void validate_muon_boxes(const RunConfig& config, Problems& problems) {
  const ModelFields& model = config.model;
  if (config.optimizer.optimizer != OptimizerKind::muon || model.family.is_auto() ||
      model.num_layers.is_auto() || model.num_query_groups.is_auto())
    return;
  const int64_t groups = model.num_query_groups.value();
  const int ranks = config.parallel.tensor_model_parallel_size;
  const auto family =
      std::ranges::find(model_families(), model.family.value(), &ModelFamily::model_type);
  if (ranks <= groups || family == model_families().end()) return;
  const std::string& qkv = family->names.qkv;
  if (qkv.empty() || !trains(config, qkv)) return;
  problems.add(
      "optimizer.optimizer: muon makes whole matrices of equal boxes on tensor ranks, and {} ranks "
      "(model.tensor_model_parallel_size) have no such boxes of {}, queries, keys and values with "
      "{} (model.num_query_groups); nearest: tensor_model_parallel_size={}, or optimizer=adam",
      ranks, qkv, counted(groups, "key-value head"), groups);
}

}  // namespace viaduct
