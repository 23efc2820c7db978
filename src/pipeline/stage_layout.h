#pragma once
// Stages written out as text (model.pipeline_model_parallel_layout): `Et*3|(tt|)*2tmL`. E is the
// embedding, t a transformer block, m a layer of multi-token prediction, L the loss; `|` ends a
// stage, `(x)*n` and `x*n` repeat, commas and spaces are ignored.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/one_or_list.h"
#include "config/problems.h"
#include "pipeline/chunk_layers.h"

namespace viaduct {

/// The virtual stages in model order: stage i is chunk i / pp of rank i % pp. Adds errors in the
/// text to `problems` (an unknown letter, brackets, an E that is not first, an L that is not last,
/// a number of blocks other than `layers`, an m that is not right before L, a number of them other
/// than `mtp`, a number of stages that pp does not divide); the result is complete if nothing was
/// added. `layers` 0, `mtp` absent: the model's number is still unknown.
std::vector<ChunkLayers> parse_stage_layout(const OneOrList<std::string>& layout, int64_t layers,
                                            int pp, Problems& problems,
                                            std::optional<int64_t> mtp = {});

}  // namespace viaduct
