#pragma once
// Messages between two ranks among the collectives of a record.

#include "timeline/record.h"

namespace viaduct {

inline bool is_send(const CollectiveRecord& c) {
  return c.operation == Collective::send;
}
inline bool is_message(const CollectiveRecord& c) {
  return is_message(c.operation);
}

}  // namespace viaduct
