#pragma once
// Small host numbers between ranks: counts of tokens, flags, seconds. Not for tensors.

#include <vector>

#include "comm/communicator.h"

namespace viaduct {

/// The sum or maximum of every rank's `value`.
double all_reduce_value(Communicator& group, double value, ReduceOp op);
/// Every rank's `values` (equally many on each), in rank order.
std::vector<std::vector<double>> all_gather_values(Communicator& group,
                                                   const std::vector<double>& values);

}  // namespace viaduct
