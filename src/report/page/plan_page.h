#pragma once
// The page about a plan: the output of `viaduct plan --json`, drawn.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace viaduct {

/// A whole HTML document from a document of `read_plan_document`. Throws the JSON library's
/// exception if a figure is missing or of another type.
std::string plan_page(const nlohmann::ordered_json& document, const std::string& name);

}  // namespace viaduct
