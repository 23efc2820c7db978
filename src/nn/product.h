#pragma once
// Matrix products of layers, whatever forms the ops read their operands in: layers have tensors,
// and a form is made where it is asked for. Weights come in theirs already (access.h).

#include "nn/context.h"
#include "nn/saved.h"
#include "ops/gemm.h"

namespace viaduct {

/// gemm of operands that may still be tensors.
void run_product(OpContext& context, GemmArgs args);

/// The forms in which dy [T, N] (a) and x [T, K] (b) wait for their weight gradient: those that its
/// product reads, if they tell their matrix's shape; else the tensors, and the forms are made
/// again.
GemmForms waiting_forms(const RankContext& context, int64_t n, int64_t k);

/// Keeps a matrix in the activation format for its weight gradient, in `form`.
void keep_operand(RankContext& context, SavedStore& saved, const void* owner, std::string_view name,
                  const Tensor& matrix, const OperandForm& form);
/// The same for its last reader, who says the form again.
Operand take_operand(const RankContext& context, SavedStore& saved, const void* owner,
                     std::string_view name, const OperandForm& form);

}  // namespace viaduct
