#pragma once
// Logits and residual streams of a row, collected from all ranks that hold a part of them.

#include <map>
#include <string>

#include "engine/engine.h"

namespace viaduct {

/// The forward of one row (without backward, without dropout): "logits" [S, V] and, with `hidden`,
/// "hidden.embed", "hidden.layer0", …, "hidden.final_norm" [S, H], f32 on the host, rows in the
/// order of the tokens. Every rank of a data-parallel place calls it; the first of them (tensor,
/// context and pipeline rank 0) gets the values.
std::map<std::string, Tensor> probe_activations(Engine& engine, const Parallelism& parallelism,
                                                const HostBatch& row, bool hidden);

}  // namespace viaduct
