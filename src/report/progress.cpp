#include "report/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace viaduct {
namespace {

constexpr const char* kClearLine = "\r\033[K";

/// " | experts 0.41 to 1.83 of an even load, 1.2 % dropped"; "" without experts.
std::string balance_text(const RouterFigures& routers) {
  std::string text;
  for (const auto& [name, figure] : routers) {
    if (name == "load")
      text += fmt::format(" | experts {:.2f} to {:.2f} of an even load", figure.least, figure.most);
    if (name == "dropped" && figure.mean > 0)
      text += fmt::format(", {:.1f} % dropped", 100 * figure.mean);
  }
  return text;
}

}  // namespace

std::string progress_line(const StepMetrics& m, int64_t total_steps, double remaining_seconds) {
  const std::string total = std::to_string(total_steps);
  std::string text = fmt::format("step {:>{}}/{}", m.step, total.size(), total);
  const auto loss = m.interval_loss ? m.interval_loss : m.loss;
  text += loss ? fmt::format(" | loss {:.4f}", *loss) : " | loss -";
  const auto& further = m.interval_mtp_losses.empty() ? m.mtp_losses : m.interval_mtp_losses;
  for (size_t depth = 0; depth < further.size(); ++depth)
    text += fmt::format(" | mtp {} loss {:.4f}", depth + 1, further[depth]);
  text += fmt::format(" | lr {:.3g}", m.learning_rate);
  if (m.grad_norm) text += fmt::format(" | grad norm {:.3g}", *m.grad_norm);
  text += m.with_rates ? fmt::format(" | {} tokens/s", format_count(m.tokens_per_second))
                       : fmt::format(" | {} a step", format_seconds(m.step_seconds));
  if (m.mfu && m.with_rates) {
    const std::string full =
        m.mfu_full ? fmt::format(" (uncausal {:.1f} %)", 100 * *m.mfu_full) : "";
    text += fmt::format(" | MFU {:.1f} %{} of {}{}", 100 * *m.mfu, full, m.mfu_peak,
                        m.rank_count > 1 ? " a rank" : "");
  }
  if (m.peak_memory_bytes > 0) {
    const std::string bytes = format_bytes(m.peak_memory_bytes);
    text += m.rank_count > 1 ? " | at most " + bytes + " a rank" : " | " + bytes;
  }
  text += balance_text(m.routers);
  if (m.skipped > 0) text += fmt::format(" | {} skipped", m.skipped);
  if (m.step < total_steps) text += " | ETA " + format_seconds(remaining_seconds);
  return text;
}

std::string progress_bar(int64_t step, int64_t total_steps, double remaining_seconds) {
  constexpr int64_t kWidth = 24;
  const int64_t total = std::max<int64_t>(total_steps, 1),
                done = std::clamp<int64_t>(step, 0, total);
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const size_t full = static_cast<size_t>(share * kWidth);
  return fmt::format("[{}{}] {}/{} {:.0f} % ETA {}", std::string(full, '#'),
                     std::string(kWidth - full, '-'), step, total_steps, 100 * share,
                     format_seconds(remaining_seconds));
}

ProgressDisplay::ProgressDisplay(std::FILE* out, bool is_terminal, int64_t total_steps)
    : out_(out), is_terminal_(is_terminal), total_steps_(total_steps) {}

ProgressDisplay::~ProgressDisplay() {
  if (!bar_.empty()) write(kClearLine);
}

double ProgressDisplay::remaining_seconds(int64_t step) const {
  return average_seconds_ * static_cast<double>(std::max<int64_t>(0, total_steps_ - step));
}

void ProgressDisplay::advance(int64_t step, double step_seconds) {
  average_seconds_ =
      average_seconds_ == 0 ? step_seconds : 0.9 * average_seconds_ + 0.1 * step_seconds;
  if (!is_terminal_) return;
  bar_ = progress_bar(step, total_steps_, remaining_seconds(step));
  write(kClearLine + bar_);
}

void ProgressDisplay::log(const StepMetrics& metrics) {
  note(progress_line(metrics, total_steps_, remaining_seconds(metrics.step)));
}

void ProgressDisplay::note(std::string_view text) {
  // Erase the bar, print the line in its place, redraw the bar below.
  write((bar_.empty() ? "" : kClearLine) + std::string(text) + "\n" + bar_);
}

void ProgressDisplay::write(std::string text) {
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace viaduct
