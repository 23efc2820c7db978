#pragma once
// Pipeline schedules as data: a pure function from settings to the actions of each stage.

#include <string>
#include <string_view>

#include "pipeline/action.h"
#include "pipeline/stage_placement.h"

namespace viaduct {

enum class ScheduleKind {
  gpipe,        // all forwards, then all backwards (Huang et al. 2019)
  one_f_one_b,  // a backward as soon as there is one (Narayanan et al. 2021, PipeDream-Flush)
  interleaved,  // 1F1B over several chunks of layers a stage (Narayanan et al. 2021, section 2.2)
  zb_h1,        // 1F1B whose weight gradients fill the bubble (Qi et al. 2023, ZB-H1)
  dualpipe_v,  // two chunks a stage in a V, forwards beside backwards (DeepSeek-AI 2025, DualPipeV)
};
/// Why DualPipe is refused, and the alternative.
inline constexpr std::string_view kDualPipeRefused =
    "dualpipe holds the parameters of two stages on each rank, twice the memory of their weights, "
    "gradients and optimizer state; dualpipe_v has the same order of work and holds each parameter "
    "once";
std::string_view schedule_kind_name(ScheduleKind kind);
/// "1f1b", "interleaved", "gpipe", "zb-h1", "dualpipe_v". ConfigError, with the nearest name,
/// otherwise.
ScheduleKind parse_schedule_kind(const std::string& name);

/// How messages are posted and waited for.
enum class PointToPoint {
  overlapped,  // receives posted one step ahead and waited for just before use, sends waited late
  batched,     // all messages between two steps are posted together, then waited for
  ordered,     // one at a time: even stages send first, odd stages receive first
};

struct ScheduleSettings {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int pp = 1;
  /// Chunks of a stage; those in front have one.
  int virtual_stages = 1;
  int64_t micro_batches = 1;
  /// Interleaved: micro-batches that a chunk runs before the next one; 0: the stages behind the
  /// front.
  int64_t group = 0;
  PointToPoint messages = PointToPoint::overlapped;
  /// Overlapped also in warm-up and drain. Otherwise messages are batched there.
  bool overlap_warmup_flush = true;
  /// Micro-batches, the first of a step, whose weight gradient of the head (the last segment of the
  /// last chunk) is deferred until the last stage would be idle (defer_embedding_wgrad_compute).
  int64_t deferred_heads = 0;
  /// Forwards alternate with backwards of other micro-batches, for which each stage runs one
  /// forward further ahead (overlap_moe_expert_parallel_comm). 1F1B of one stage, interleaved, or
  /// DualPipeV, whose forwards beside backwards are independent of them anyway.
  bool combines = false;
  /// Where exchanges are in two parts, the weight halves of backwards run after the begin of the
  /// next exchange (delay_wgrad_compute).
  bool delays_weights = false;
  /// false: only forwards (evaluation).
  bool backward = true;
  /// Of the pp stages those of an encoder, which are in front of the others.
  int front_stages = 0;

  StageOrder order() const {
    const bool v = kind == ScheduleKind::dualpipe_v;
    return {pp, v ? StagePlacement::v : StagePlacement::loop, front_stages};
  }
  /// Whether stages of one chunk are in front of stages of several. They are not in step: a stage
  /// in front takes as long for a micro-batch as the others do for all chunks of it.
  bool has_front() const { return front_stages > 0 && virtual_stages > 1; }
};

/// ConfigError listing all problems: numbers below 1, no stage behind the front, virtual stages
/// that the kind does not support, a group outside [stages behind the front, micro-batches] or with
/// a remainder below these stages, deferred heads with a kind that delays all weight gradients,
/// combined actions with a kind or a number of stages that has none, messages that are not
/// overlapped where stages are not in step.
void check_schedule_settings(const ScheduleSettings& settings);

/// The actions of pipeline rank `stage` in a step. ConfigError as check_schedule_settings.
ActionList stage_schedule(const ScheduleSettings& settings, int stage);

/// The actions of all stages.
struct Schedule {
  int virtual_stages = 1;
  int64_t micro_batches = 1;
  std::vector<ActionList> stages;
  StagePlacement placement = StagePlacement::loop;
  int front_stages = 0;

  int pp() const { return static_cast<int>(stages.size()); }
  StageOrder order() const { return {pp(), placement, front_stages}; }
};
Schedule make_schedule(const ScheduleSettings& settings);

}  // namespace viaduct
