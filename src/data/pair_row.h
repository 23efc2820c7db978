#pragma once
// A row for a model with an encoder, from its input and its answer.

#include <cstdint>
#include <vector>

#include "data/pair_settings.h"
#include "data/sample.h"

namespace viaduct {

/// The encoder's row is the input with padding; the decoder's, of `length` places, begins with the
/// start token and goes on with the answer, all of whose tokens are scored. Input and answer, which
/// are not empty, fit.
void fill_pair(const PairSettings& settings, int64_t length, const std::vector<int32_t>& input,
               const std::vector<int32_t>& answer, Sample& sample);

}  // namespace viaduct
