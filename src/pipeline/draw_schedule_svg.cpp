#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/markup.h"
#include "pipeline/draw_schedule.h"

namespace viaduct {
namespace {

constexpr double kLeft = 70, kTop = 64, kRow = 30, kGap = 6;

struct Colour {
  std::string_view name;           // in the legend
  std::array<int, 3> light, dark;  // of the first and the last chunk
};

const Colour& colour_of(const Action& action) {
  static constexpr Colour kForward{"forward", {173, 206, 240}, {74, 134, 197}};
  static constexpr Colour kBackward{"backward", {178, 223, 190}, {76, 160, 104}};
  static constexpr Colour kInput{"backward, input half", {178, 223, 190}, {76, 160, 104}};
  static constexpr Colour kWeight{"backward, weight half", {250, 214, 160}, {224, 160, 70}};
  static constexpr Colour kHead{"weight gradient of the head", {222, 190, 232}, {150, 90, 170}};
  switch (action.kind) {
    case ActionKind::forward:
      return kForward;
    case ActionKind::backward:
      return kBackward;
    case ActionKind::backward_input:
      return kInput;
    default:
      return action.segments == kLastSegment ? kHead : kWeight;
  }
}

std::string fill(const Colour& colour, int chunk, int chunks) {
  const double share = chunks > 1 ? static_cast<double>(chunk) / (chunks - 1) : 0;
  std::array<int, 3> rgb{};
  for (size_t i = 0; i < 3; ++i)
    rgb[i] = colour.light[i] + static_cast<int>((colour.dark[i] - colour.light[i]) * share);
  return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]);
}

/// Writes elements; coordinates are in pixels.
class Svg {
 public:
  void rectangle(double x, double y, double width, double height, std::string_view colour) {
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
        width, height, colour);
  }
  void text(double x, double y, double size, std::string_view anchor, std::string_view text) {
    body_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.0f}\" text-anchor=\"{}\">{}</text>\n", x, y,
        size, anchor, escaped_markup(text));
  }
  std::string document(double width, double height) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n",
        width, height, body_);
  }

 private:
  std::string body_;
};

void draw_legend(Svg& svg, const Schedule& schedule, double y) {
  double x = kLeft;
  std::vector<std::string_view> done;
  // Stages differ only in the head, which the last one has.
  for (const Action& action : schedule.stages.back()) {
    const bool has_no_time =
        action.kind == ActionKind::backward_input && action.segments == kLastSegment;
    if (!computes(action.kind) || has_no_time) continue;
    const Colour& colour = colour_of(action);
    if (std::find(done.begin(), done.end(), colour.name) != done.end()) continue;
    done.push_back(colour.name);
    // One square for each chunk, up to a handful.
    const int chunks = std::min(schedule.virtual_stages, 8);
    for (int chunk = 0; chunk < chunks; ++chunk, x += 14)
      svg.rectangle(x, y - 11, 13, 13, fill(colour, chunk, chunks));
    svg.text(x + 4, y, 12, "start", colour.name);
    x += 24 + 6.5 * static_cast<double>(colour.name.size());
  }
  svg.rectangle(x, y - 11, 13, 13, "#eeeeee");
  svg.text(x + 18, y, 12, "start", "idle");
  if (schedule.virtual_stages > 1)
    svg.text(x + 60, y, 12, "start", "darker: later chunks of a stage");
}

}  // namespace

std::string draw_schedule_svg(const Schedule& schedule, const ScheduleTimes& times,
                              const std::string& title) {
  // A unit is as wide as its number of digits requires.
  const double unit = 14 + 8 * static_cast<double>(std::to_string(schedule.micro_batches).size());
  const double end = times.end * unit;
  Svg svg;
  svg.text(kLeft, 22, 15, "start", title);
  draw_legend(svg, schedule, 46);
  double y = kTop;
  for (size_t stage = 0; stage < times.stages.size(); ++stage, y += kRow + kGap) {
    svg.text(kLeft - 8, y + kRow / 2 + 4, 12, "end", stage_name(stage, schedule.front_stages));
    svg.rectangle(kLeft, y, end, kRow, "#eeeeee");
    for (const Span& span : times.stages[stage]) {
      if (span.begin == span.end) continue;
      const Action& action = schedule.stages[stage][span.action];
      const double x = kLeft + span.begin * unit, width = (span.end - span.begin) * unit;
      svg.rectangle(x + 0.5, y, width - 1, kRow,
                    fill(colour_of(action), action.chunk, schedule.virtual_stages));
      svg.text(x + width / 2, y + kRow / 2 + 4, 12, "middle", std::to_string(action.micro_batch));
    }
  }
  const double step = std::max(1.0, times.end > 40 ? 10.0 : 5.0);
  for (double time = 0; time <= times.end; time += step)
    svg.text(kLeft + time * unit, y + 12, 11, "middle", fmt::format("{:.0f}", time));
  svg.text(kLeft - 8, y + 12, 11, "end", "time");
  return svg.document(std::max(kLeft + end + 20, 760.0), y + 26);
}

}  // namespace viaduct
