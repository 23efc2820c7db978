#pragma once
// What a GPU's norms and activations make of their results besides (ops/produced_forms.h), those in
// the epilogues of products too, which are launches of the same kernels.

#include "ops/dispatch.h"
#include "ops/produced_forms.h"

namespace viaduct::cuda {

/// The part of a request that the kernels make: magnitudes, and row-wise FP8 codes with scales of
/// groups of a row.
FormsRequest produced_forms(const FormsRequest& request, const Traits& traits);

/// Bytes of workspace for the largest magnitudes of blocks.
int64_t forms_workspace(const ProducedForms& forms);
/// Launches beyond that of the matrix: one joins the largest magnitudes of blocks.
int forms_launches(const ProducedForms& forms);

}  // namespace viaduct::cuda
