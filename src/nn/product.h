#pragma once
// Matrix products of layers: layers have tensors, and operands are converted to the forms that the
// ops read. Weights already come in their forms (access.h).

#include "nn/context.h"
#include "nn/saved.h"
#include "ops/gemm.h"

namespace viaduct {

/// `gemm`; converts operands that are still tensors.
void run_product(OpContext& context, GemmArgs args);

/// The forms in which dy [T, N] (a) and x [T, K] (b) are kept for their weight gradient: those that
/// its product reads, if they show their matrix's shape; else tensors, which the product converts.
GemmForms waiting_forms(const RankContext& context, int64_t n, int64_t k);

/// Keeps a matrix in the activation format for its weight gradient, in `form`.
void keep_operand(RankContext& context, SavedStore& saved, const void* owner, std::string_view name,
                  const Tensor& matrix, const OperandForm& form);
/// Takes it back for its last reader, which gives the same form.
Operand take_operand(const RankContext& context, SavedStore& saved, const void* owner,
                     std::string_view name, const OperandForm& form);

}  // namespace viaduct
