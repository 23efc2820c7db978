#pragma once
// The progress of reading files, on standard error where that is a terminal.

#include <cstdint>

namespace viaduct::cli {

class ProgressBar {
 public:
  ProgressBar();
  /// Removes the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Bytes of `total`; 0: unknown, no bar.
  void show(int64_t done, int64_t total);
  /// Seconds since the beginning, more than 0.
  double elapsed() const;

 private:
  const bool on_terminal_;
  const double begin_;
  bool shown_ = false;
};

}  // namespace viaduct::cli
