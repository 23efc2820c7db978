#pragma once
// The weights of a model from a folder: what must be there, and reading what a rank holds of it.

#include <string>
#include <vector>

#include "checkpoint/logical_values.h"
#include "checkpoint/tensor_source.h"
#include "model/model_config.h"
#include "sharding/parameter_store.h"

namespace viaduct {

/// Checks that `source` holds every logical tensor of the whole model, however it is laid out, in
/// its shape, and nothing that belongs to no parameter (constant tables that the family ignores and
/// copies of a tied head aside). IoError that lists what does not fit.
void check_tensors_fit(const ModelConfig& config, const TensorSource& source);

/// The name under which `source` has a logical tensor: as it is, or without the prefix that some
/// checkpoints of the family leave out.
std::string stored_name(const TensorSource& source, const std::string& name,
                        const TensorNames& names);

/// The runs of the store that this rank updates, with the values that `values` names for each
/// (master, gradient, a moment).
std::vector<StoredRun> stored_runs(const ParameterStore& store,
                                   FunctionRef<Tensor(const ShardRun&, size_t index)> values);

/// Reads what the store holds of the model into the masters, converted to their format, and
/// publishes the weights, after check_tensors_fit.
void load_parameters(OpContext& context, ParameterStore& store, const TensorSource& source,
                     const ModelConfig& config);

}  // namespace viaduct
