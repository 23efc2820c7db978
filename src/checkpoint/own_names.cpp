#include "checkpoint/own_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "checkpoint/parameter_io.h"
#include "model/family.h"
#include "model/further_fields.h"

namespace viaduct {

std::vector<std::string> own_names(const ModelConfig& model, const std::string& config) {
  auto json = parse_json<nlohmann::ordered_json>(config, "config.json");
  if (json.erase(kFurtherFields) == 0) return {};
  std::set<std::string> known;
  try {
    for (auto& name : logical_names(read_hf_config(json.dump(), "config.json")))
      known.insert(std::move(name));
  } catch (const ConfigError&) {
    return {};  // without these fields it is not a model
  }
  std::vector<std::string> own = logical_names(model);
  std::erase_if(own, [&](const std::string& name) { return known.contains(name); });
  return own;
}

std::string own_names_text(const ModelConfig& model, const std::string& config) {
  const std::vector<std::string> own = own_names(model, config);
  if (own.empty()) return "";
  const std::vector<std::string> first(own.begin(),
                                       own.begin() + std::min<std::ptrdiff_t>(3, std::ssize(own)));
  return fmt::format(", without {} under {} of Viaduct's own ({}{})",
                     counted(std::ssize(own), "tensor"), own.size() == 1 ? "a name" : "names",
                     fmt::join(first, ", "), own.size() > 3 ? ", …" : "");
}

}  // namespace viaduct
