// viaduct rules: the tuning guides' rules that plans and dry runs apply.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "plan/rules/markdown.h"
#include "plan/rules/rule.h"
#include "subcommands.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string id;
  bool json = false, markdown = false;
};

Json rule_json(std::string_view group, const rules::Rule& rule) {
  Json json{{"id", rule.id},
            {"group", group},
            {"when", rules::when_text(rule.when)},
            {"condition", rule.condition},
            {"advice", rule.says},
            {"evidence", rule.evidence},
            {"source", rule.source}};
  if (!rule.settled.empty()) json["never_fires"] = rule.settled;
  return json;
}

int run(const Options& options) {
  if (options.markdown) {
    fmt::print("{}", rules::rules_markdown());
    return 0;
  }
  Json list = Json::array();
  std::vector<std::string> ids;
  for (const rules::RuleGroup& group : rules::rule_groups()) {
    for (const rules::Rule& rule : group.rules) {
      ids.emplace_back(rule.id);
      if (options.id.empty() || options.id == rule.id) list.push_back(rule_json(group.name, rule));
    }
  }
  if (list.empty()) {
    const auto near = nearest_name(options.id, ids);
    fail<ConfigError>("viaduct rules: no rule \"{}\"{}", options.id,
                      near ? "; did you mean " + *near + "?" : "; viaduct rules lists all");
  }
  if (options.json) {
    Json thresholds = Json::array();
    for (const rules::LimitRow& row : rules::limit_table())
      thresholds.push_back({{"name", row.name},
                            {"value", row.value},
                            {"unit", row.unit},
                            {"meaning", row.meaning},
                            {"source", row.source}});
    fmt::print("{}\n",
               Json{{"rules", std::move(list)}, {"thresholds", std::move(thresholds)}}.dump(2));
    return 0;
  }
  for (const Json& rule : list) {
    if (options.id.empty()) {
      fmt::print("{:<26} {}\n", rule["id"].get<std::string>(),
                 rule["condition"].get<std::string>());
      continue;
    }
    for (const auto& [name, value] : rule.items())
      fmt::print("{:<11} {}\n", name, value.get<std::string>());
  }
  return 0;
}

}  // namespace

Subcommand add_rules(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("rules", "The tuning guides' rules that plan and train --dry-run apply");
  auto options = std::make_shared<Options>();
  app->add_option("ID", options->id, "One rule; default: all");
  app->add_flag("--json", options->json, "One JSON document");
  app->add_flag("--markdown", options->markdown, "The page docs/guide-rules.md");
  app->footer("Example: viaduct rules tp-too-large");
  return {app, [options] { return run(*options); }};
}

}  // namespace viaduct::cli
