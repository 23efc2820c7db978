#pragma once
// Draws a schedule: one row a stage, time from left to right.

#include <string>

#include "pipeline/replay_schedule.h"

namespace viaduct {

/// Lines for a terminal. A unit of time is one column: F and micro-batch for a forward, B for a
/// backward, I and W for its two halves, H for a deferred weight gradient of the head, a letter for
/// the chunk if its stage has several, "=" for the rest of its duration, "." for idle time. Times
/// must be whole numbers of units.
std::string draw_schedule_text(const Schedule& schedule, const ScheduleTimes& times);

/// A picture (SVG), with `title` above.
std::string draw_schedule_svg(const Schedule& schedule, const ScheduleTimes& times,
                              const std::string& title);

/// The name of a row: "stage 2", or "encoder 0" of those in front; counted over both.
inline std::string stage_name(size_t stage, int front_stages) {
  const bool of_encoder = stage < static_cast<size_t>(front_stages);
  return (of_encoder ? "encoder " : "stage ") + std::to_string(stage);
}

}  // namespace viaduct
