#pragma once
// Hugging Face folders in the form in which transformers 5 computes: the gate and up projections of
// all experts of a layer in one tensor, "experts.gate_up_proj" [E, 2 F, H], and "experts.down_proj"
// [E, H, F]. They are seen as the matrices of single experts, under the names that the family's
// published files have; so is a router whose name differs between the two forms (Mixtral).

#include "checkpoint/expert_slices.h"
#include "model/model_config.h"

namespace viaduct {

/// Whether `stored` has such tensors, for a family whose own files have single experts.
bool experts_are_together(const TensorSource& stored, const TensorNames& names);

/// `stored` with single experts. IoError where it has an expert in both forms.
std::unique_ptr<TensorSource> separate_experts(std::unique_ptr<TensorSource> stored,
                                               const TensorNames& names);

}  // namespace viaduct
