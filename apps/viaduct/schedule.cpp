// viaduct schedule: draws a pipeline schedule and prints its bubble.

#include "pipeline/schedule.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "number_checks.h"
#include "pipeline/draw_schedule.h"
#include "pipeline/validate_schedule.h"
#include "subcommands.h"

namespace viaduct::cli {
namespace {

using nlohmann::ordered_json;

// Longer schedules are not drawn in a terminal.
constexpr double kWidestUnits = 400;
// Replaying a schedule takes a time that grows with the square of its stages.
constexpr int64_t kMostActions = 1'000'000, kMostStages = 4096;

struct Arguments {
  int pp = 1, encoder_stages = 0, virtual_stages = 1;
  int64_t micro_batches = 1, group = 0;
  int64_t deferral_limit = -1;  // as comm_overlap.wgrad_deferral_limit
  std::string kind, svg;
  bool json = false, combined = false;
};

struct Result {
  ScheduleSettings settings;
  Schedule schedule;
  ScheduleTimes times;
  std::vector<StageHolds> holds;
};

Result make(const Arguments& arguments) {
  Result r;
  r.settings.front_stages = arguments.pp < 1 ? 0 : arguments.encoder_stages;
  const int64_t in_front = r.settings.front_stages, stages = in_front + arguments.pp;
  VIADUCT_CHECK(ConfigError, stages <= kMostStages,
                "viaduct schedule: --pp: at most {} stages are drawn, found {}{}", kMostStages,
                stages, in_front > 0 ? " with those of --encoder-pp" : "");
  r.settings.pp = static_cast<int>(stages);
  r.settings.virtual_stages = arguments.virtual_stages;
  r.settings.micro_batches = arguments.micro_batches;
  r.settings.group = arguments.group;
  if (!arguments.kind.empty()) {
    r.settings.kind = parse_schedule_kind(arguments.kind);
  } else if (arguments.virtual_stages > 1) {
    r.settings.kind = ScheduleKind::interleaved;
  }
  if (arguments.deferral_limit >= 0) {
    r.settings.deferred_heads =
        arguments.deferral_limit == 0 ? arguments.micro_batches : arguments.deferral_limit;
  }
  r.settings.combines = arguments.combined;
  check_schedule_settings(r.settings);
  const double work =
      3.0 * r.settings.pp * arguments.virtual_stages * static_cast<double>(arguments.micro_batches);
  VIADUCT_CHECK(ConfigError, work <= kMostActions,
                "viaduct schedule: --pp, --vpp, --microbatches: {} stages of {} chunks with {} "
                "micro-batches are {:.3g} "
                "computations; at most {} are drawn",
                r.settings.pp, arguments.virtual_stages, arguments.micro_batches, work,
                kMostActions);
  r.schedule = make_schedule(r.settings);
  r.holds = validate_schedule(r.schedule);
  r.times = replay_schedule(r.schedule);
  return r;
}

ordered_json action_json(const Action& action) {
  ordered_json j{{"kind", action_name(action.kind)},
                 {"micro_batch", action.micro_batch},
                 {"chunk", action.chunk}};
  if (!action.segments.is_whole())
    j["segments"] = action.segments == kLastSegment ? "last" : "all but the last";
  if (!computes(action.kind)) {
    const Message& m = action.message;
    j["flow"] = m.flow == Flow::activations ? "activations" : "gradients";
    j["direction"] = m.outgoing ? "send" : "receive";
    j["peer"] = m.peer;
    j["sequence"] = m.sequence;
  }
  if (action.begins >= 0) j["begins"] = action.begins;
  if (action.last_gradient) j["last_gradient"] = true;
  if (action.combined) j["combined"] = true;
  return j;
}

void print_json(const Result& r) {
  ordered_json stages = ordered_json::array();
  for (size_t stage = 0; stage < r.schedule.stages.size(); ++stage) {
    ordered_json actions = ordered_json::array();
    for (const Action& action : r.schedule.stages[stage]) actions.push_back(action_json(action));
    for (const Span& span : r.times.stages[stage]) {
      actions[span.action]["begin"] = span.begin;
      actions[span.action]["end"] = span.end;
    }
    const bool of_encoder = stage < static_cast<size_t>(r.settings.front_stages);
    stages.push_back({{"stage", stage},
                      {"of_encoder", of_encoder},
                      {"peak_saved_stores", r.holds[stage].stores},
                      {"peak_buffers", r.holds[stage].buffers},
                      {"peak_parts", r.holds[stage].parts},
                      {"actions", std::move(actions)}});
  }
  const ordered_json document{{"kind", schedule_kind_name(r.settings.kind)},
                              {"pp", r.settings.pp},
                              {"encoder_pp", r.settings.front_stages},
                              {"vpp", r.settings.virtual_stages},
                              {"microbatches", r.settings.micro_batches},
                              {"time", r.times.end},
                              {"busy_time", r.times.busy},
                              {"bubble_fraction", r.times.bubble_fraction()},
                              {"stages", std::move(stages)}};
  fmt::print("{}\n", document.dump(2));
}

std::string title(const Result& r) {
  const ScheduleSettings& s = r.settings;
  std::string text = fmt::format("{}: {}", schedule_kind_name(s.kind), counted(s.pp, "stage"));
  if (s.virtual_stages > 1) text += fmt::format(" of {} chunks", s.virtual_stages);
  if (s.front_stages > 0) {
    text +=
        fmt::format(" ({} of an encoder{})", s.front_stages, s.has_front() ? ", of one chunk" : "");
  }
  return text + ", " + counted(s.micro_batches, "micro-batch", "micro-batches");
}

std::string bubble(const Result& r) {
  return fmt::format("bubble {:.4g} of the work", r.times.bubble_fraction());
}

void print_text(const Result& r) {
  fmt::print("{}\n\n", title(r));
  if (r.times.end <= kWidestUnits) {
    fmt::print("{}\n", draw_schedule_text(r.schedule, r.times));
  } else {
    fmt::print("({:.0f} units of time are too many to draw as text; use --svg)\n\n", r.times.end);
  }
  const ScheduleSettings& s = r.settings;
  fmt::print(
      "time {:.0f} ({}forward 1, backward {}{}{}), of which a stage works {:.0f}: {}, idle {:.1f} "
      "%\n",
      r.times.end, r.settings.virtual_stages > 1 ? "of a chunk: " : "",
      r.settings.kind == ScheduleKind::zb_h1        ? "1 + 1"
      : r.settings.kind == ScheduleKind::dualpipe_v ? "2, or 1 + 1 in halves"
                                                    : "2",
      r.settings.deferred_heads > 0 ? "; where the head's weight gradient waits, 1 and 1" : "",
      s.has_front()
          ? fmt::format("; of an encoder's stage {} and {}", s.virtual_stages, 2 * s.virtual_stages)
          : "",
      r.times.busy, bubble(r), 100 * (1 - r.times.busy / r.times.end));
  fmt::print("held at most, in {}:",
             r.settings.virtual_stages > 1
                 ? fmt::format("micro-batches of a chunk (1/{} of a stage each{})",
                               r.settings.virtual_stages,
                               s.has_front() ? ", of an encoder's stage all of it" : "")
                 : "micro-batches");
  for (size_t stage = 0; stage < r.holds.size(); ++stage)
    fmt::print("{} {}: {}", stage == 0 ? "" : ",", stage_name(stage, s.front_stages),
               r.holds[stage].stores);
  if (const int64_t heads = r.holds.back().parts; heads > 0)
    fmt::print(", and the inputs of {} weight gradients of the head", heads);
  fmt::print("\n");
}

int run_schedule_command(const Arguments& arguments) {
  VIADUCT_CHECK(ConfigError, arguments.svg != "-" || !arguments.json,
                "schedule: --svg - and --json both write to standard output");
  const Result result = make(arguments);
  if (!arguments.svg.empty()) {
    write_file_atomically(arguments.svg,
                          draw_schedule_svg(result.schedule, result.times,
                                            fmt::format("{}: {}", title(result), bubble(result))));
    if (arguments.svg == "-") return 0;  // the drawing is the only output
  }
  if (arguments.json) {
    print_json(result);
  } else {
    print_text(result);
  }
  return 0;
}

}  // namespace

Subcommand add_schedule(CLI::App& root) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* app = root.add_subcommand("schedule", "Draw a pipeline schedule and print its bubble");
  app->add_option("--pp", arguments->pp, "Pipeline stages")->required();
  app->add_option("--encoder-pp", arguments->encoder_stages,
                  "Further stages in front, of an encoder or a vision tower "
                  "(model.encoder_pipeline_model_parallel_size)")
      ->check(not_negative());
  app->add_option("--vpp", arguments->virtual_stages, "Model chunks of a stage");
  app->add_option("--microbatches", arguments->micro_batches, "Micro-batches of a step")
      ->required();
  app->add_option(
      "--kind", arguments->kind,
      "1f1b, interleaved, gpipe, zero_bubble, which is zb-h1, or dualpipe_v (default: interleaved "
      "with --vpp, else 1f1b)");
  app->add_option("--g", arguments->group,
                  "Interleaved: micro-batches that a chunk runs before the next (default: pp)");
  app->add_option("--wgrad-deferral-limit", arguments->deferral_limit,
                  "Micro-batches whose weight gradient of the head is deferred to the drain "
                  "(defer_embedding_wgrad_compute); 0: all")
      ->check(not_negative());
  app->add_flag("--combined", arguments->combined,
                "Forwards alternate with the backward beside them, marked with & "
                "(overlap_moe_expert_parallel_comm)");
  app->add_option("--svg", arguments->svg,
                  "Write the drawing to this file; -: only the drawing, to standard output")
      ->check(new_path());
  app->add_flag("--json", arguments->json, "All actions of each stage, as JSON");
  app->footer("Example:\n  viaduct schedule --pp 4 --microbatches 8 --kind zero_bubble");
  return {app, [arguments] { return run_schedule_command(*arguments); }};
}

}  // namespace viaduct::cli
