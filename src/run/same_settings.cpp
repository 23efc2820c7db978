#include "run/same_settings.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "config/value.h"

namespace viaduct {
namespace {

using Settings = std::map<std::string, std::string>;

/// Those that all ranks have alike.
Settings settings_of(const std::string& yaml) {
  Settings settings;
  for (const auto& [section, fields] : parse_yaml(yaml, "resolved configuration").entries) {
    for (const auto& [name, value] : fields.entries)
      settings[section + "." + name] = to_flow_yaml(value);
  }
  RunConfig config;
  const Schema schema = run_schema(config);
  for (const FieldGroup& group : schema.groups())
    for (const Field& field : group.fields())
      if (field.differs_by_rank) settings.erase(field.full_name());
  return settings;
}

/// One line for each setting that differs.
std::string differences(const Settings& first, const Settings& mine, int rank) {
  std::string lines;
  const auto value = [](const Settings& settings, const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string("nothing") : found->second;
  };
  Settings all = first;
  all.insert(mine.begin(), mine.end());
  for (const auto& [name, unused] : all) {
    const std::string theirs = value(first, name), own = value(mine, name);
    if (theirs == own) continue;
    lines +=
        fmt::format("{}{}: {} on rank {}, {} on rank 0: all ranks of a run need the same value",
                    lines.empty() ? "" : "\n", name, own, rank, theirs);
  }
  return lines;
}

}  // namespace

void check_same_settings(HostGroup& host, const RunConfig& config) {
  if (host.size() == 1) return;
  const std::string mine = to_yaml(config);
  const std::string first = host.text_of_rank_0(mine);
  const auto found = host.first_text(
      mine == first ? "" : differences(settings_of(first), settings_of(mine), host.rank()));
  if (!found) return;
  std::vector<std::string> problems;
  for (size_t begin = 0; begin <= found->text.size();) {
    const size_t end = std::min(found->text.find('\n', begin), found->text.size());
    problems.push_back(found->text.substr(begin, end - begin));
    begin = end + 1;
  }
  throw ConfigError(std::move(problems));
}

}  // namespace viaduct
