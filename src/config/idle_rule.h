#pragma once
// When a setting does nothing in a run: said where its field is declared, `.idle(when, why)`, or
// for all fields of a group, and reported at start where the user gave it (run/no_effect.h). A rule
// reads the settings of its own folder, after they are resolved.

#include <functional>
#include <string>

namespace viaduct {

/// Why a field does nothing, "" where it acts.
using IdleRule = std::function<std::string()>;

/// `reason` where `holds`, else "".
inline std::string reason_if(bool holds, std::string reason) {
  return holds ? std::move(reason) : std::string();
}

}  // namespace viaduct
