#pragma once
// Why steps of a run may need memory of other sizes than their plan.

#include <string>

namespace viaduct {

struct RunSetup;

/// What differs between micro-batches of this run, separated by commas: experts' loads, the number
/// of pictures, documents' lengths; "": nothing that is known.
std::string unplanned_causes(const RunSetup& setup);

}  // namespace viaduct
