#pragma once
// The probabilities of given tokens, from the residual stream before the head.

#include <vector>

#include "engine/score_texts.h"

namespace viaduct {

struct TokenScore {
  size_t request = 0;
  double log_probability = 0;  // natural logarithm
  bool is_greedy = false;      // no token has a larger probability, and none before it an equal one
};

/// In place of the head of a micro-batch with documents at `document_offsets` before its cut, of
/// which this rank has `stream`: the scores of those targets whose position is on this context
/// rank. All tensor ranks make the call and get the same scores; ranks that share weights make it
/// as often.
std::vector<TokenScore> score_tokens(Engine& engine, const HeadSegment& head, const Tensor& stream,
                                     const std::vector<int32_t>& document_offsets,
                                     const std::vector<TokenTarget>& targets);

}  // namespace viaduct
