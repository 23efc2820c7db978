#pragma once
// Stages of a model whose layers do not divide among them: embedding, loss and each layer of
// multi-token prediction take the place of a layer, and the chunks that have one more are behind
// the first.

#include <string>

#include "plan/layout.h"

namespace viaduct {

/// Whether `chunks` (pp · vpp) have a layer each. `prediction`: layers of multi-token prediction.
bool can_cut_unevenly(int layers, int prediction, int chunks);

/// Layers of a chunk of a layout whose stages are uneven, [0, pp · vpp).
int uneven_layers_of(const Layout& layout, int chunk);

/// The value of model.pipeline_model_parallel_layout: "Ett|(ttt|)*6tmL".
std::string uneven_stages(const Layout& layout);

}  // namespace viaduct
