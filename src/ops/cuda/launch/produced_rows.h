#pragma once
// What kernels take for the forms that they make besides their matrix.

#include "ops/cuda/kernels/produced_rows.h"
#include "ops/produced_forms.h"

namespace viaduct::cuda {

/// `workspace`: forms_workspace(forms) bytes (ops/cuda/produced_choose.h).
ProducedRows produced_rows(const ProducedForms& forms, void* workspace);

}  // namespace viaduct::cuda
