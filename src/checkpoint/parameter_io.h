#pragma once
// Between parameters (made of parts) and logical tensors under Hugging Face's names.

#include <string>
#include <vector>

#include "base/function_ref.h"
#include "checkpoint/tensor_source.h"
#include "model/model_config.h"
#include "sharding/parameter_store.h"

namespace viaduct {

/// Checks that `source` holds each part of each parameter in its shape, and nothing that belongs to
/// no parameter (constant tables that `names` ignores and copies of a tied head aside). IoError
/// that lists what does not fit.
void check_tensors_fit(const std::vector<const Parameter*>& parameters, const TensorSource& source,
                       const TensorNames& names, bool tied_embeddings);

/// Reads every part of every parameter into the masters, converted to their format, and publishes
/// the weights, after check_tensors_fit.
void load_parameters(OpContext& context, ParameterStore& store, const TensorSource& source,
                     const TensorNames& names, bool tied_embeddings);

/// Fills the tensors of the parameters' storage, `of(parameter)` on `device`, from logical tensors
/// `get(name)`, converted to their format. ShapeError if one has another shape.
void fill_from_logical(Device& device, const std::vector<const Parameter*>& parameters,
                       FunctionRef<Tensor(const Parameter&)> of,
                       FunctionRef<Tensor(const std::string& name)> get);

/// Calls `visit(name, tensor)` for each logical tensor of `parameters`, in their order, where
/// `of(parameter)` is a tensor of the parameter's storage on `device` (weight, gradient, moment).
/// `tensor` is f32 on the host in the logical tensor's shape, values times `factor`. Parts that lie
/// in one storage must cover their logical tensors.
void for_each_logical_tensor(
    Device& device, const std::vector<const Parameter*>& parameters,
    FunctionRef<Tensor(const Parameter&)> of, double factor,
    FunctionRef<void(const std::string& name, const Tensor& tensor)> visit);

}  // namespace viaduct
