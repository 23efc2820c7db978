#pragma once
// Steps of very many micro-batches, from two steps of few. A pipeline repeats itself: between
// warm-up and drain each round of micro-batches does on every stage what the round before did,
// later by the same time. Where that is seen, further rounds add that time, and what they compute
// and send, and nothing else.
//
// Why it goes on: what a phase waits for are phases of rounds shortly before it, on this and other
// stages, and the host. If all phases of all stages came later by the same time than those of the
// round before, so do the next ones; and the host, which waits for none of them, stays ahead if its
// launches of a round take no longer.

#include <optional>

#include "plan/predict.h"

namespace viaduct {

/// The step that `setup` describes; its dry runs are those of the whole step, the times are equal
/// to those of `predict` but for rounding. None where the step is short, settings ask for its
/// timeline, or its rounds are not seen to repeat: GPipe's, copies to a second memory,
/// micro-batches that share documents.
std::optional<Prediction> predict_steady_rounds(const RunSetup& setup, const Cluster& cluster,
                                                const PredictionSettings& settings,
                                                ThreadPool& pool, const Deadline& deadline = {});

}  // namespace viaduct
