#pragma once
// The JSON document of `viaduct plan --json`, checked and read back for a page.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "report/page/symptoms.h"

namespace viaduct {

/// IoError if the file is not a document of `viaduct plan --json`: one predicted configuration
/// ("stages") or a search ("candidates").
nlohmann::ordered_json read_plan_document(const std::filesystem::path& path);

/// What the document predicts of a run: its configuration, or the best candidate of a search.
std::optional<PlannedRun> planned_run(const nlohmann::ordered_json& document);

}  // namespace viaduct
