#include "generate/adapter_choice.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/nearest.h"

namespace viaduct {

std::optional<std::string> chosen_adapter(const nlohmann::json& line, const std::string& where) {
  const auto member = line.find("adapter");
  if (member == line.end()) return std::nullopt;
  if (member->is_null()) return "";
  VIADUCT_CHECK(
      ConfigError, member->is_string() && !member->get<std::string>().empty(),
      "{}: \"adapter\": expected the name of one of --adapter NAME=DIR, or null, found {}", where,
      shown_name(member->dump().substr(0, 80)));
  return member->get<std::string>();
}

int64_t adapter_number(const std::optional<std::string>& chosen,
                       const std::vector<std::string>& names, const std::string& where) {
  if (!chosen || chosen->empty()) return 0;
  const auto found = std::ranges::find(names, *chosen);
  if (found != names.end()) return found - names.begin() + 1;
  const auto near = nearest_name(*chosen, names);
  fail<ConfigError>("{}: \"adapter\": {} is no adapter of the command{} ({})", where,
                    shown_name(*chosen), near ? "; nearest: " + *near : "",
                    names.empty() ? std::string("--adapter NAME=DIR gives it a name")
                                  : fmt::format("--adapter has {}", fmt::join(names, ", ")));
}

}  // namespace viaduct
