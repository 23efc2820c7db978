#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pipeline/draw_schedule.h"

namespace viaduct {
namespace {

std::string label(const Action& action, int virtual_stages) {
  const char* letter = "F";
  if (action.kind == ActionKind::backward) letter = "B";
  if (action.kind == ActionKind::backward_input) letter = "I";
  if (action.kind == ActionKind::backward_weight)
    letter = action.segments == kLastSegment ? "H" : "W";
  std::string chunk;
  if (virtual_stages > 26) {
    chunk = fmt::format(".{}", action.chunk);
  } else if (virtual_stages > 1) {
    chunk = static_cast<char>('a' + action.chunk);
  }
  return fmt::format("{}{}{}{}", letter, action.micro_batch, chunk, action.combined ? "&" : "");
}

}  // namespace

std::string draw_schedule_text(const Schedule& schedule, const ScheduleTimes& times,
                               int encoder_stages) {
  size_t unit = 2;  // characters, with the space that follows
  for (const ActionList& actions : schedule.stages) {
    for (const Action& action : actions) {
      if (computes(action.kind))
        unit = std::max(unit, label(action, schedule.virtual_stages).size() + 1);
    }
  }
  const auto column = [&](double time) { return static_cast<size_t>(std::lround(time)) * unit; };
  size_t widest = 0;
  for (size_t stage = 0; stage < times.stages.size(); ++stage)
    widest = std::max(widest, stage_name(stage, encoder_stages).size());
  std::string text;
  for (size_t stage = 0; stage < times.stages.size(); ++stage) {
    std::string row(column(times.end), ' ');
    for (size_t at = 0; at < row.size(); at += unit) row[at] = '.';
    for (const Span& span : times.stages[stage]) {
      const size_t begin = column(span.begin), end = column(span.end);
      if (begin == end) continue;
      std::string cell = label(schedule.stages[stage][span.action], schedule.virtual_stages);
      const bool longer = end - begin > unit;
      cell.resize(end - begin - 1, longer ? '=' : ' ');
      row.replace(begin, end - begin, cell + ' ');
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += fmt::format("{:<{}}  {}\n", stage_name(stage, encoder_stages), widest, row);
  }
  return text;
}

}  // namespace viaduct
