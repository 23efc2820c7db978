#include "pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "base/units.h"
#include "config/choice.h"
#include "pipeline/pipeline_order.h"
#include "pipeline/place_messages.h"

namespace viaduct {
namespace {

constexpr std::array kKinds{ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                            ScheduleKind::gpipe, ScheduleKind::zb_h1, ScheduleKind::dualpipe_v};

/// How many steps a stage is behind the first of those that are in step with it.
int steps_behind(const ScheduleSettings& settings, int stage) {
  return settings.has_front() && stage >= settings.front_stages ? stage - settings.front_stages
                                                                : stage;
}

void set_flags(const ScheduleSettings& settings, ActionList& actions, int stage) {
  const auto late = static_cast<size_t>(steps_behind(settings, stage));
  std::set<int> begun, ended;
  std::vector<Action*> forwards;
  for (Action& action : actions) {
    if (action.kind != ActionKind::forward) continue;
    forwards.push_back(&action);
    if (!begun.insert(action.chunk).second) continue;
    // A short list of forwards may not reach that far ahead; then nothing needs the mark. Nor do
    // stages that are not in step.
    const bool in_step = settings.backward && settings.kind != ScheduleKind::dualpipe_v;
    const size_t number = forwards.size() - 1, ahead = in_step ? std::min(number, late) : 0;
    forwards[number - ahead]->begins = action.chunk;
  }
  for (auto action = actions.rbegin(); action != actions.rend(); ++action) {
    if (computes(action->kind) && action->kind != ActionKind::forward)
      action->last_gradient = ended.insert(action->chunk).second;
  }
  std::vector<Action*> backwards;
  for (Action& action : actions) {
    if (action.kind == ActionKind::backward) backwards.push_back(&action);
  }
  for (size_t number = late; number < backwards.size(); ++number) {
    const Action& complete = *backwards[number - late];
    if (complete.last_gradient) backwards[number]->reduces = complete.chunk;
  }
}

/// Splits the weight half of the last segment, the head, off the first backwards of the last chunk,
/// and puts it after the last action that another stage waits for.
void defer_heads(const ScheduleSettings& settings, ActionList& actions) {
  ActionList heads, all;
  for (const Action& action : actions) {
    const bool defers = action.kind == ActionKind::backward &&
                        action.chunk == settings.virtual_stages - 1 &&
                        static_cast<int64_t>(heads.size()) < settings.deferred_heads;
    all.push_back(action);
    if (!defers) continue;
    Action& input = all.back();
    input.kind = ActionKind::backward_input;
    input.segments = kLastSegment;
    all.push_back({ActionKind::backward, action.micro_batch, action.chunk, kAllButLastSegment});
    heads.push_back({ActionKind::backward_weight, action.micro_batch, action.chunk, kLastSegment});
  }
  actions = std::move(all);
  const auto waits = [](const Action& action) { return action.kind == ActionKind::wait; };
  const auto drained = std::find_if_not(actions.rbegin(), actions.rend(), waits).base();
  actions.insert(drained, heads.begin(), heads.end());
}

void check_dualpipe_v(const ScheduleSettings& s, std::vector<std::string>& problems) {
  const int stages = s.order().behind();
  if (stages == 1 || s.virtual_stages != 2) {
    problems.push_back(
        fmt::format("schedule dualpipe_v needs pipeline_model_parallel_size above 1 and 2 virtual "
                    "stages, found {} and {}",
                    stages, s.virtual_stages));
  }
  if (s.backward && s.micro_batches < 2 * int64_t{stages}) {
    problems.push_back(
        fmt::format("schedule dualpipe_v: {} fewer than 2 · pipeline_model_parallel_size = {}",
                    counted(s.micro_batches, "micro-batch is", "micro-batches are"), 2 * stages));
  }
  // Its stages are not in step.
  if (s.messages != PointToPoint::overlapped || !s.overlap_warmup_flush) {
    problems.push_back(
        "schedule dualpipe_v needs messages that are overlapped, in warm-up and drain too");
  }
  if (s.deferred_heads > 0) {
    problems.push_back(
        "schedule dualpipe_v already delays weight gradients; that of the head cannot be deferred "
        "in addition");
  }
}

void check_group(const ScheduleSettings& s, std::vector<std::string>& problems) {
  const int stages = s.order().behind();
  if (!s.backward) {  // without backwards, any group size is valid
    if (s.messages == PointToPoint::ordered && s.micro_batches < stages)
      problems.push_back(
          "interleaved forwards of fewer micro-batches than stages need overlapped or batched "
          "messages; blocking messages deadlock");
    return;
  }
  const int64_t group = s.group > 0 ? s.group : stages, rest = s.micro_batches % group;
  if (s.micro_batches < stages) {
    problems.push_back(fmt::format(
        "interleaved schedule: {} fewer than pipeline_model_parallel_size {}; use at least {}",
        counted(s.micro_batches, "micro-batch is", "micro-batches are"), stages, stages));
  } else if (group < stages || group > s.micro_batches) {
    problems.push_back(fmt::format(
        "microbatch_group_size_per_vp_stage {} is outside [pipeline_model_parallel_size {}, "
        "micro-batches {}]; nearest: {}",
        group, stages, s.micro_batches, group < stages ? stages : s.micro_batches));
  } else if (rest != 0 && rest < stages) {
    problems.push_back(fmt::format(
        "microbatch_group_size_per_vp_stage {} leaves {} of {} micro-batches, fewer than "
        "pipeline_model_parallel_size {}; nearest: {} or {} micro-batches",
        group, rest, s.micro_batches, stages, s.micro_batches - rest,
        s.micro_batches - rest + stages));
  }
}

}  // namespace

std::string_view schedule_kind_name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return "gpipe";
    case ScheduleKind::one_f_one_b:
      return "1f1b";
    case ScheduleKind::interleaved:
      return "interleaved";
    case ScheduleKind::zb_h1:
      return "zb-h1";
    case ScheduleKind::dualpipe_v:
      return "dualpipe_v";
  }
  return "?";
}

ScheduleKind parse_schedule_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const ScheduleKind kind : kKinds) {
    if (name == schedule_kind_name(kind)) return kind;
    names.emplace_back(schedule_kind_name(kind));
  }
  // Values of model.pipeline_schedule have other names.
  constexpr std::string_view kZeroBubble = choice_name(PipelineOrder::zero_bubble);
  if (name == kZeroBubble) return ScheduleKind::zb_h1;
  VIADUCT_CHECK(ConfigError, name != choice_name(PipelineOrder::dualpipe), "{}", kDualPipeRefused);
  names.emplace_back(kZeroBubble);
  const auto near = nearest_name(name, names);
  fail<ConfigError>(
      "no pipeline schedule \"{}\"{}; there are 1f1b, interleaved, gpipe, "
      "zero_bubble (zb-h1) and dualpipe_v",
      name, near ? fmt::format("; did you mean {}?", *near) : "");
}

void check_schedule_settings(const ScheduleSettings& s) {
  std::vector<std::string> problems;
  const auto positive = [&](const char* name, int64_t value) {
    if (value < 1) problems.push_back(fmt::format("{}: {} is below 1", name, value));
  };
  positive("pipeline_model_parallel_size", s.pp);
  positive("virtual_pipeline_model_parallel_size", s.virtual_stages);
  positive("micro-batches", s.micro_batches);
  if (s.front_stages < 0 || s.front_stages >= s.pp) {
    problems.push_back(fmt::format("stages in front: {} of {}; expected at least one behind them",
                                   s.front_stages, s.pp));
  }
  if (s.group < 0) positive("microbatch_group_size_per_vp_stage", s.group);
  if (s.deferred_heads < 0) positive("micro-batches whose head waits", s.deferred_heads);
  if (!problems.empty()) throw ConfigError(problems);

  const std::string_view kind = schedule_kind_name(s.kind);
  if (s.kind == ScheduleKind::interleaved) {
    if (s.order().behind() == 1) {
      problems.push_back(
          fmt::format("{} pipeline_model_parallel_size above 1, which is 1",
                      counted(s.virtual_stages, "virtual stage needs", "virtual stages need")));
    } else if (s.virtual_stages == 1) {
      problems.push_back(
          "interleaved schedule: virtual_pipeline_model_parallel_size is 1; use 2 or more, or the "
          "schedule 1f1b");
    } else {
      check_group(s, problems);
    }
  } else {
    if (s.kind == ScheduleKind::dualpipe_v) {
      check_dualpipe_v(s, problems);
    } else if (s.virtual_stages > 1) {
      problems.push_back(
          fmt::format("schedule {} has one virtual stage, but {} were requested; use the schedule "
                      "interleaved",
                      kind, s.virtual_stages));
    }
    if (s.group > 0) {
      problems.push_back(
          fmt::format("microbatch_group_size_per_vp_stage {} is a setting of the schedule "
                      "interleaved, not of {}",
                      s.group, kind));
    }
  }
  if (s.kind == ScheduleKind::zb_h1 && s.deferred_heads > 0) {
    problems.push_back(
        "schedule zb-h1 already delays all weight gradients; that of the head cannot be deferred "
        "in addition");
  }
  if (s.combines && s.backward && s.kind != ScheduleKind::interleaved &&
      s.kind != ScheduleKind::dualpipe_v && (s.kind != ScheduleKind::one_f_one_b || s.pp > 1)) {
    problems.push_back(
        fmt::format("schedule {} of {} does not combine forwards with backwards; interleaved "
                    "and dualpipe_v do, and 1f1b of one stage",
                    kind, counted(s.pp, "stage")));
  }
  if (s.has_front() && (s.messages != PointToPoint::overlapped || !s.overlap_warmup_flush)) {
    problems.push_back(
        "an encoder's stages in front of virtual stages need messages that are overlapped, in "
        "warm-up and drain too: they are not in step");
  }
  // Its stages are not in step, so neighbours would both send first.
  if (s.kind == ScheduleKind::zb_h1 && s.messages == PointToPoint::ordered && s.pp > 1) {
    problems.push_back(
        "schedule zb-h1 needs overlapped or batched messages; blocking messages deadlock");
  }
  if (!problems.empty()) throw ConfigError(problems);
}

ActionList stage_schedule(const ScheduleSettings& settings, int stage) {
  check_schedule_settings(settings);
  VIADUCT_CHECK(ConfigError, stage >= 0 && stage < settings.pp, "schedule: no stage {} of {}",
                stage, settings.pp);
  ActionList actions = place_messages(settings, stage, compute_order(settings, stage));
  if (stage == settings.pp - 1) defer_heads(settings, actions);
  set_flags(settings, actions, stage);
  return actions;
}

Schedule make_schedule(const ScheduleSettings& settings) {
  check_schedule_settings(settings);
  Schedule schedule{settings.virtual_stages,
                    settings.micro_batches,
                    {},
                    settings.order().placement,
                    settings.front_stages};
  for (int stage = 0; stage < settings.pp; ++stage)
    schedule.stages.push_back(stage_schedule(settings, stage));
  return schedule;
}

}  // namespace viaduct
