#pragma once
// The weights of a model from a folder: what must be there, and reading what a rank holds of it.

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/logical_values.h"
#include "checkpoint/strictness.h"
#include "checkpoint/tensor_source.h"
#include "model/model_config.h"
#include "nn/adapter_settings.h"
#include "sharding/parameter_store.h"
#include "sharding/run_cursor.h"

namespace viaduct {

/// The names of the logical tensors of the whole model, in its order.
std::vector<std::string> logical_names(const ModelConfig& config);

/// How the tensors of a source fit those of a model; each entry is a text about one tensor.
struct TensorFit {
  std::vector<std::string> wrong;  // of another shape or type
  std::vector<std::string> lacking, additional;
};

/// What is read for parameters in addition to or instead of their weights.
struct TensorKind {
  std::string prefix;                       // of the names; "" are the weights
  bool (*has)(const Parameter&) = nullptr;  // null: every parameter (states: except load biases)
  Shape (*shape)(const Shape& logical) = nullptr;  // of the wanted tensor; null: the logical one's
};

/// Compares `source` with the logical tensors of the whole model, however it is laid out. For each
/// of `kinds` a tensor PREFIX + name is wanted of every parameter that has it. Constant
/// tables that the family ignores are not additional, nor is a copy of a tied head unless
/// `may_copy_head` is false: checkpoints of runs hold none, so that theirs is a head of its own.
/// With `adapters`, only their own tensors are wanted: a checkpoint of such a run has no others.
TensorFit tensor_fit(const ModelConfig& config, const TensorSource& source,
                     const std::vector<TensorKind>& kinds = {{""}},
                     const AdapterSettings& adapters = {}, bool may_copy_head = true);

/// IoError that lists the mismatches that are errors under `strictness`; returns the others, one
/// text each, for warnings.
std::vector<std::string> check_fit(const TensorFit& fit, const std::string& where,
                                   Strictness strictness);

/// The source holds the weights of the model and nothing else, or IoError that lists what does not
/// fit.
void check_tensors_fit(const ModelConfig& config, const TensorSource& source);

/// Whether a tensor of this name is of layers that are not read (TensorNames::unread_prefixes).
bool is_unread(const std::string& name, const TensorNames& names);

/// The name under which `source` has a logical tensor: as it is, or without the prefix that some
/// checkpoints of the family leave out.
std::string stored_name(const TensorSource& source, const std::string& name,
                        const TensorNames& names);

/// The runs of the store that this rank updates, with the values that `values` names for each
/// (master, gradient, a moment). Values in the second memory are fetched with `cursor`; null: with
/// one that only reads.
std::vector<StoredRun> stored_runs(const ParameterStore& store,
                                   FunctionRef<StateValues(const ShardRun&, size_t index)> values,
                                   std::shared_ptr<RunCursor> cursor = nullptr);

/// Reads what the store holds of the model, adapters aside, into the masters, converted to their
/// format, and publishes the weights, after check_tensors_fit.
void load_parameters(OpContext& context, ParameterStore& store, const TensorSource& source,
                     const ModelConfig& config);

/// The same of the adapters and of what trains beside them, from the tensors of open_adapter
/// (checkpoint/peft_folder.h).
void load_adapter(OpContext& context, ParameterStore& store, const TensorSource& source);

}  // namespace viaduct
