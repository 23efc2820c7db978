#include "model/initialize_magnitudes.h"

#include <map>
#include <string>

#include "nn/row_norms.h"
#include "ops/elementwise.h"
#include "sharding/master_values.h"
#include "sharding/run_cursor.h"

namespace viaduct {
namespace {

/// [features] the norms of the rows of `weight` that `magnitudes` are for.
Tensor norms_of(RankContext& context, const Parameter& weight, const Parameter& magnitudes) {
  const AcquiredWeight w(context.weights, weight, WeightUse::elementwise);
  const Tensor rows = w.tensor().slice(0, magnitudes.magnitude_row, magnitudes.shape[0]);
  const bool cut = magnitudes.parts.front().replicas == Replicas::tp;
  return reciprocals(context, inverse_row_norms(context, rows, nullptr, cut));
}

}  // namespace

void initialize_magnitudes(RankContext& context, ParameterStore& store) {
  std::map<std::string, const Parameter*> by_path;
  for (const Parameter* parameter : store.parameters()) by_path[parameter->path] = parameter;
  std::map<std::string, Tensor> norms;  // by path, so that they are freed in the same order always
  for (const Parameter* parameter : store.parameters()) {
    if (parameter->magnitude_of.empty()) continue;
    norms[parameter->path] = norms_of(context, *by_path.at(parameter->magnitude_of), *parameter);
  }
  if (norms.empty()) return;
  RunCursor cursor(store.offloaded(), BlockCursor::Access::change);
  for (const ShardRun& run : store.shard_runs()) {
    const auto found = norms.find(run.parameter->path);
    if (found == norms.end()) continue;
    const ShardRun here = cursor.at(run);
    const Tensor master = master_place(context.ops, here);
    copy(context.ops, {found->second.slice(0, here.range.begin, here.range.size()), master});
    store_master(context.ops, here, master);
  }
  cursor.finish();
  store.publish_masters(context.ops);
}

}  // namespace viaduct
