#include "report/page/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/json.h"
#include "base/units.h"
#include "report/page/charts.h"
#include "report/page/html_page.h"

namespace viaduct {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "–";
  return value.dump();
}

std::string bytes(const Json& value) {
  return format_bytes(static_cast<int64_t>(value.get<double>()));
}

int64_t most_of(const Json& values) {
  int64_t most = 0;
  for (const Json& value : values) most = std::max(most, value.get<int64_t>());
  return most;
}

void add_headlines(HtmlPage& page, const Json& predicted, double capacity) {
  page.headlines(
      {{format_seconds(predicted.at("step_seconds").get<double>()), "step"},
       {format_count(predicted.at("tokens_per_second_per_gpu").get<double>()), "tokens/s a GPU"},
       {fmt::format("{:.0f}", predicted.at("tflops_per_gpu").get<double>()), "model TFLOP/s a GPU"},
       {fmt::format("{:.1f} %", 100 * predicted.at("mfu").get<double>()), "MFU, dense peak"},
       {format_bytes(most_of(predicted.at("peak_memory_bytes"))),
        fmt::format("of {}, fullest stage", format_bytes(static_cast<int64_t>(capacity)))}});
  if (!predicted.at("fits").get<bool>())
    page.note(NoteKind::warning, "Does not fit: the fullest stage needs more than the GPU has.");
}

void add_notes(HtmlPage& page, const Json& document, const char* name) {
  const auto found = document.find(name);
  if (found == document.end() || !found->is_array()) return;
  for (const Json& note : *found) page.note(NoteKind::plain, text(note));
}

/// Adds a value under its part's name, creating the part if no earlier bar had it.
void put(BarChart& chart, BarChart::Bar& bar, const std::string& part, double value) {
  auto at = std::find(chart.parts.begin(), chart.parts.end(), part);
  if (at == chart.parts.end()) at = chart.parts.insert(at, part);
  const auto index = static_cast<size_t>(at - chart.parts.begin());
  if (bar.values.size() <= index) bar.values.resize(index + 1, 0);
  bar.values[index] += value;
}

void add_waterfall(HtmlPage& page, const Json& stages, double step) {
  BarChart chart{"seconds of a step by stage", {}, {}, 0, ""};
  for (size_t i = 0; i < stages.size(); ++i) {
    const Json& seconds = stages[i].at("seconds");
    BarChart::Bar bar{fmt::format("stage {}", i), format_seconds(step), {}};
    for (const auto& [kind, value] : seconds.at("compute_by_kind").items())
      put(chart, bar, kind, value.get<double>());
    put(chart, bar, "optimizer", seconds.at("optimizer").get<double>());
    for (const auto& [group, value] : seconds.at("exposed_communication").items())
      put(chart, bar, "exposed " + group, value.get<double>());
    put(chart, bar, "bubble", seconds.at("bubble").get<double>());
    put(chart, bar, "host", seconds.at("host").get<double>());
    chart.bars.push_back(std::move(bar));
  }
  page.section("Where the time goes");
  page.figure(chart.label, draw(chart),
              "The compute stream of one rank of each stage, over one step.");
}

void add_memory(HtmlPage& page, const Json& stages, double capacity) {
  BarChart chart{"memory by owner and stage", {}, {}, capacity, "capacity"};
  for (size_t i = 0; i < stages.size(); ++i) {
    BarChart::Bar bar{fmt::format("stage {}", i), bytes(stages[i].at("peak_memory_bytes")), {}};
    for (const auto& [owner, value] : stages[i].at("memory_by_owner").items())
      put(chart, bar, owner, value.get<double>());
    chart.bars.push_back(std::move(bar));
  }
  page.section("Memory");
  page.figure(chart.label, draw(chart), "By owner, at the fullest moment of each stage.");
}

/// When phases run and how memory moves; only in documents that were made with --timeline.
void add_timeline(HtmlPage& page, const Json& stages, double step) {
  SpanChart spans{
      "phases of a step by stage", {"forward", "backward", "optimizer", "other"}, {}, step};
  LineChart memory{"memory over a step", "seconds", "bytes in use", {}, {}};
  memory.bytes = memory.from_zero = true;
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto timeline = stages[i].find("timeline");
    if (timeline == stages[i].end()) return;
    std::vector<SpanChart::Span> row;
    for (const Json& phase : timeline->at("phases")) {
      const auto name = phase.at("name").get<std::string>();
      const int kind = name.starts_with("forward")    ? 0
                       : name.starts_with("backward") ? 1
                       : name == "optimizer"          ? 2
                                                      : 3;
      row.push_back({phase.at("begin").get<double>(), phase.at("end").get<double>(), kind});
    }
    spans.rows.push_back({fmt::format("stage {}", i), std::move(row)});
    Series series{fmt::format("stage {}", i), {}, false};
    for (const Json& point : timeline->at("memory"))
      series.points.push_back({point.at(0).get<double>(), point.at(1).get<double>()});
    // More lines than this cannot be told apart: the first and the last stages.
    if (stages.size() <= 8 || i < 4 || i + 4 >= stages.size())
      memory.series.push_back(std::move(series));
  }
  page.section("One step");
  page.figure(spans.label, draw(spans), "When each stage computes; white: waiting.");
  page.figure(memory.label, draw(memory), "Bytes in use over the step.");
}

void config_page(HtmlPage& page, const Json& document) {
  const Json& predicted = document.at("predicted");
  const double capacity = predicted.at("capacity_bytes").get<double>();
  const double step = predicted.at("step_seconds").get<double>();
  add_headlines(page, predicted, capacity);
  add_notes(page, document, "notes");
  const Json& stages = document.at("stages");
  add_waterfall(page, stages, step);
  add_timeline(page, stages, step);
  add_memory(page, stages, capacity);
  page.section("Configuration");
  page.details("The resolved configuration", text(document.at("config")));
}

std::string layout_name(const Json& c) {
  std::string name =
      fmt::format("tp{} cp{} pp{}", text(c.at("tensor_model_parallel_size")),
                  text(c.at("context_parallel_size")), text(c.at("pipeline_model_parallel_size")));
  if (c.at("virtual_pipeline_model_parallel_size") != 1)
    name += "×" + text(c.at("virtual_pipeline_model_parallel_size"));
  if (c.contains("expert_model_parallel_size") && c.at("expert_model_parallel_size") != 1)
    name += " ep" + text(c.at("expert_model_parallel_size"));
  return fmt::format("{} dp{} b{}", name, text(c.at("data_parallel_size")),
                     text(c.at("micro_batch_size")));
}

void search_page(HtmlPage& page, const Json& document) {
  const Json& candidates = document.at("candidates");
  if (candidates.empty()) {
    page.note(NoteKind::warning, "No layout fits on these GPUs.");
  } else {
    add_headlines(page, candidates.front().at("predicted"),
                  document.at("capacity_bytes").get<double>());
    page.section("Why this layout");
    page.paragraph(layout_name(candidates.front()) + ", sharding " +
                   text(candidates.front().at("sharding")) + ", recompute " +
                   text(candidates.front().at("recompute")));
    add_notes(page, candidates.front(), "reasons");
    std::string overrides;
    for (const Json& field : candidates.front().at("overrides")) overrides += text(field) + "\n";
    page.details("Its overrides for viaduct train", overrides);
  }
  BarChart chart{"seconds of a step by candidate", {}, {}, 0, ""};
  std::vector<std::vector<std::string>> rows;
  for (const Json& c : candidates) {
    const Json& p = c.at("predicted");
    BarChart::Bar bar{layout_name(c), format_seconds(p.at("step_seconds").get<double>()), {}};
    for (const auto& [name, value] : p.at("seconds").items())
      put(chart, bar, name, value.get<double>());
    chart.bars.push_back(std::move(bar));
    rows.push_back({layout_name(c), text(c.at("sharding")), text(c.at("recompute")),
                    format_seconds(p.at("step_seconds").get<double>()),
                    fmt::format("{:.0f}", p.at("tokens_per_second_per_gpu").get<double>()),
                    fmt::format("{:.1f} %", 100 * p.at("mfu").get<double>()),
                    format_bytes(most_of(p.at("peak_memory_bytes"))), bytes(p.at("slack_bytes")),
                    c.at("tie").get<bool>() ? "tie" : ""});
  }
  if (!rows.empty()) {
    page.section("Candidates");
    page.figure(chart.label, draw(chart), "The step of the fullest stage, fastest layout first.");
    page.table({"layout", "sharding", "recompute", "step", "tokens/s a GPU", "MFU", "peak memory",
                "free", ""},
               rows);
  }
  const Json& search = document.at("search");
  page.section("The search");
  page.paragraph(fmt::format(
      "{}, {} predicted, in {}. {}", counted(search.at("layouts").get<int64_t>(), "layout"),
      text(search.at("dry_runs")), format_seconds(search.at("seconds").get<double>()),
      search.at("complete").get<bool>()
          ? "All others are proven to be slower or too large."
          : fmt::format("The search reached its time limit: {} left.",
                        counted(search.at("left").get<int64_t>(), "layout is", "layouts are"))));
  for (const char* name : {"rejected", "refused", "changes"}) {
    const auto found = document.find(name);
    if (found == document.end() || found->empty()) continue;
    page.details(fmt::format("{} {}", found->size(), name), found->dump(2));
  }
}

}  // namespace

std::string plan_page(const Json& document, const std::string& name) {
  HtmlPage page("Plan " + name,
                fmt::format("{} × {} ({}), predicted from {}", text(document.at("gpus")),
                            text(document.at("gpu")), text(document.at("cluster")),
                            text(document.at("basis"))));
  if (document.contains("stages")) {
    config_page(page, document);
  } else {
    search_page(page, document);
  }
  return page.document();
}

}  // namespace viaduct
