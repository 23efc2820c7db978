#include "plan/rules/markdown.h"

#include <fmt/format.h>

#include "plan/rules/rule.h"

namespace viaduct::rules {
namespace {

/// A cell of a table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string never(const Rule& rule) {
  return rule.settled.empty() ? "" : "; never fires: " + cell(rule.settled);
}

}  // namespace

std::string when_text(unsigned when) {
  std::string text;
  const auto add = [&](unsigned bit, const char* name) {
    if ((when & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(kPlan, "plan"), add(kStart, "start"), add(kRun, "run");
  return text;
}

std::string rules_markdown() {
  std::string page =
      "# The tuning guides' rules\n\n"
      "This page lists the recommendations of the tuning guides as conditions on figures that a "
      "prediction has. It is made by "
      "`viaduct rules --markdown`; do not edit it. How [`viaduct "
      "plan`](planning.md#the-guides-rules) applies them stands there.\n\n"
      "Sources: *guides* are the performance guides of Megatron-Bridge and NeMo, in the named "
      "section; *benchmark page* is one of "
      "Megatron-Core's; *deployment summary* is a digest of the first. Row ids of figures are "
      "those of "
      "[`published_runs.csv`](../benchmarks/plan/published_runs.csv), where it has them.\n\n"
      "Symbols: h width, s tokens of a row, b rows of a micro-batch, n micro-batches of a step, t "
      "c p v e x the sizes of tensor, "
      "context, pipeline, virtual, expert and expert-tensor parallelism, D data ranks, Z = D·c, De "
      "data ranks of experts, "
      "T = b·s/c tokens of a micro-batch on a rank, g and a key-value and query heads, R rate of "
      "products over that of a link. "
      "*When*: of a plan, at the start on the machine, of a measured run; a plan says `unknown` of "
      "the last two.\n\n";
  for (const RuleGroup& group : rule_groups()) {
    page += fmt::format(
        "## {}\n\n| id | when | condition | advice | evidence | source "
        "|\n|---|---|---|---|---|---|\n",
        group.name);
    for (const Rule& rule : group.rules)
      page += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", rule.id, when_text(rule.when),
                          cell(rule.condition) + never(rule), cell(rule.says),
                          rule.evidence.empty() ? "–" : cell(rule.evidence), cell(rule.source));
    page += "\n";
  }
  page +=
      "## Thresholds\n\n`--threshold NAME=VALUE` of `viaduct plan` and `viaduct train --dry-run` "
      "replaces one.\n\n"
      "| name | value | unit | meaning | source |\n|---|---|---|---|---|\n";
  for (const LimitRow& row : limit_table())
    page += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name, row.value,
                        row.unit.empty() ? "–" : row.unit, row.meaning, row.source);
  return page;
}

}  // namespace viaduct::rules
