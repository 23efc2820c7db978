#pragma once
// A row of a table of measured memory (Megatron-LM's continuous integration) as a configuration.

#include "plan/score/published_run.h"

namespace viaduct {

/// UnsupportedRow for what the trainer does not have or the row does not state.
PublishedRun published_memory_run(const PublishedRow& row);

}  // namespace viaduct
