#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pipeline/draw_schedule.h"

namespace viaduct {
namespace {

std::string label(const Action& action, int chunks) {
  const char* letter = "F";
  if (action.kind == ActionKind::backward) letter = "B";
  if (action.kind == ActionKind::backward_input) letter = "I";
  if (action.kind == ActionKind::backward_weight)
    letter = action.segments == kLastSegment ? "H" : "W";
  std::string chunk;
  if (chunks > 26) {
    chunk = fmt::format(".{}", action.chunk);
  } else if (chunks > 1) {
    chunk = static_cast<char>('a' + action.chunk);
  }
  return fmt::format("{}{}{}{}", letter, action.micro_batch, chunk, action.combined ? "&" : "");
}

}  // namespace

std::string draw_schedule_text(const Schedule& schedule, const ScheduleTimes& times) {
  const StageOrder order = schedule.order();
  const auto label_of = [&](const Action& action, size_t stage) {
    return label(action, order.chunks(static_cast<int>(stage), schedule.virtual_stages));
  };
  const auto name_of = [&](size_t stage) { return stage_name(stage, schedule.front_stages); };
  size_t unit = 2;  // characters, with the space that follows
  for (size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    for (const Action& action : schedule.stages[stage]) {
      if (computes(action.kind)) unit = std::max(unit, label_of(action, stage).size() + 1);
    }
  }
  const auto column = [&](double time) { return static_cast<size_t>(std::lround(time)) * unit; };
  size_t widest = 0;
  for (size_t stage = 0; stage < times.stages.size(); ++stage)
    widest = std::max(widest, name_of(stage).size());
  std::string text;
  for (size_t stage = 0; stage < times.stages.size(); ++stage) {
    std::string row(column(times.end), ' ');
    for (size_t at = 0; at < row.size(); at += unit) row[at] = '.';
    for (const Span& span : times.stages[stage]) {
      const size_t begin = column(span.begin), end = column(span.end);
      if (begin == end) continue;
      std::string cell = label_of(schedule.stages[stage][span.action], stage);
      const bool longer = end - begin > unit;
      cell.resize(end - begin - 1, longer ? '=' : ' ');
      row.replace(begin, end - begin, cell + ' ');
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += fmt::format("{:<{}}  {}\n", name_of(stage), widest, row);
  }
  return text;
}

}  // namespace viaduct
