#pragma once
// Logits and residual streams of a micro-batch, collected from all ranks that hold a part of them.

#include <map>
#include <string>

#include "engine/engine.h"

namespace viaduct {

/// The forward of the rows of a micro-batch (without backward, without dropout), T tokens of each
/// data-parallel rank: "logits" [dp · T, V] and, with `hidden`, "hidden.embed", "hidden.layer0", …,
/// "hidden.final_norm" [dp · T, H], of an encoder "hidden.encoder.embed" and so on, f32 on the
/// host, in the order of the tokens, those of data rank 0 first. Every rank calls it, with its own
/// rows; the first one gets the values.
std::map<std::string, Tensor> probe_activations(Engine& engine, const Parallelism& parallelism,
                                                const HostBatch& rows, bool hidden);

}  // namespace viaduct
