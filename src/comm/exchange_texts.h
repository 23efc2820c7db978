#pragma once
// Short texts between ranks: messages, names, small tables as bytes. Not for tensors.

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace viaduct {

/// Every rank's `text` (any bytes, of any length), in rank order, on every rank.
std::vector<std::string> exchange_texts(Communicator& group, const std::string& text);

}  // namespace viaduct
