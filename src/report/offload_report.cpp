#include "report/offload_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"

namespace viaduct {
namespace {

std::string rate(double bytes_per_second) {
  return format_bytes(static_cast<int64_t>(bytes_per_second)) + "/s";
}

/// Seconds that the copies take at the measured bandwidth.
double copy_seconds(const OffloadCounts& counts, const OffloadBandwidth& bandwidth) {
  return static_cast<double>(counts.put_bytes) / std::max(bandwidth.write, 1.0) +
         static_cast<double>(counts.fetched_bytes) / std::max(bandwidth.read, 1.0);
}

}  // namespace

std::string traffic_text(const OffloadCounts& step) {
  return fmt::format("{} out and {} back a step, at most {} held", format_bytes(step.put_bytes),
                     format_bytes(step.fetched_bytes), format_bytes(step.most_bytes));
}

std::string planned_text(const OffloadReport& report) {
  if (report.planned.puts == 0) {
    return fmt::format(
        "second memory ({}): nothing is offloaded: no tensor has model.min_offloaded_tensor_size "
        "elements\n",
        report.where);
  }
  return fmt::format("second memory ({}): {}; measured {} out, {} back: {} of copies a step\n",
                     report.where, traffic_text(report.planned), rate(report.measured.write),
                     rate(report.measured.read),
                     format_seconds(copy_seconds(report.planned, report.measured)));
}

std::string outcome_text(const OffloadReport& report) {
  if (report.done.puts == 0) return "";
  const double moved = static_cast<double>(report.done.put_bytes + report.done.fetched_bytes);
  const double copies = copy_seconds(report.done, report.measured);
  return fmt::format(
      "second memory: {} out and {} back; steps of {} needed {}, measured {}; waited {}\n",
      format_bytes(report.done.put_bytes), format_bytes(report.done.fetched_bytes),
      format_seconds(report.step_seconds), rate(moved / std::max(report.step_seconds, 1e-9)),
      rate(moved / std::max(copies, 1e-9)), format_seconds(report.done.wait_seconds));
}

}  // namespace viaduct
