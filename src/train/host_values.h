#pragma once
// Small host values between ranks: counts of tokens, flags, seconds, messages. Not for tensors.

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace viaduct {

/// The sum or maximum of every rank's `value`.
double all_reduce_value(Communicator& group, double value, ReduceOp op);
/// Every rank's `values` (equally many on each), in rank order.
std::vector<std::vector<double>> all_gather_values(Communicator& group,
                                                   const std::vector<double>& values);

/// Every rank's text, in rank order.
std::vector<std::string> all_gather_texts(Communicator& group, const std::string& text);

}  // namespace viaduct
