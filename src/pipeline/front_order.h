#pragma once
// The stages of an encoder, which have one chunk each, in front of stages that have several.
//
// The first stage behind them runs its first chunk for a group of micro-batches in a row, and then
// its other chunks. An encoder's stage computes one micro-batch after the other, each as long as
// all chunks of a stage behind it take. So the encoder runs ahead of a group by as much as it falls
// behind in it, and what it sends waits at the receiver.

#include "pipeline/compute_order.h"

namespace viaduct {

/// The order of stage `stage` in front: forwards and backwards at even distances, early enough for
/// the first stage behind, whose steps are `behind`, and late enough for what it sends back.
std::vector<Step> front_order(const ScheduleSettings& settings, const std::vector<Step>& behind,
                              int stage);

/// Lets the first stage behind take what comes from the front when it is sent, ahead of its use.
void pace_inputs(const ScheduleSettings& settings, std::vector<Step>& behind);

}  // namespace viaduct
