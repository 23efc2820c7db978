#pragma once
// Runs over all axes and their settings, whose dry runs are compared with the records of ranks.

#include <ostream>
#include <string>
#include <vector>

#include "support/training.h"

namespace viaduct::test {

struct RecordLayout {
  std::string name;
  Overrides overrides;  // of a tiny model of four layers, eight rows a step
  bool sends = false;   // messages from rank to rank
};

inline void PrintTo(const RecordLayout& layout, std::ostream* out) {
  *out << layout.name;
}

std::vector<RecordLayout> record_layouts();

}  // namespace viaduct::test
