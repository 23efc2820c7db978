#pragma once
// Fields as readable text: one knob in full, and the reference page docs/configuration.md.

#include <string>

#include "config/schema.h"

namespace viaduct {

/// "built", "planned", "not applicable", or, where devices differ, "cpu built, cuda planned, sim
/// planned".
std::string state_text(const Field& field);

/// Everything about one field in a few lines.
std::string describe(const Field& field);

/// The reference of all sections in Markdown; docs/configuration.md holds exactly this.
std::string configuration_markdown(const Schema& schema);

}  // namespace viaduct
