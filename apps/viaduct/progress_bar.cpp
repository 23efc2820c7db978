#include "progress_bar.h"

#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/units.h"
#include "standard_streams.h"

namespace viaduct::cli {

ProgressBar::ProgressBar() : on_terminal_(::isatty(STDERR_FILENO) == 1), begin_(steady_seconds()) {}

ProgressBar::~ProgressBar() {
  if (shown_) say("\r\033[K");
}

void ProgressBar::show(int64_t done, int64_t total) {
  if (!on_terminal_ || total == 0) return;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(kWidth * done / total);
  const double seconds = elapsed();
  const double left =
      done > 0 ? seconds * static_cast<double>(total - done) / static_cast<double>(done) : 0;
  say("\r[{:#<{}}{:-<{}}] {} of {}  {}/s  ETA {}\033[K", "", filled, "", kWidth - filled,
      format_bytes(done), format_bytes(total),
      format_bytes(static_cast<int64_t>(static_cast<double>(done) / seconds)),
      format_seconds(left));
  shown_ = true;
}

double ProgressBar::elapsed() const {
  return std::max(1e-9, steady_seconds() - begin_);
}

}  // namespace viaduct::cli
