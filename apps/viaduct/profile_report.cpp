#include "profile_report.h"

#include <fmt/core.h>

#include "base/json.h"
#include "base/units.h"

namespace viaduct::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* kind_name(ProfileKind kind) {
  return kind == ProfileKind::op              ? "op"
         : kind == ProfileKind::communication ? "communication"
                                              : "host";
}

std::string label(const ProfileRow& row) {
  if (row.kind == ProfileKind::communication) return "wait for " + row.name;
  return row.kernel.empty() ? row.name : row.name + " (" + row.kernel + ")";
}

double bytes_of(const ProfileRow& row) {
  return static_cast<double>(row.cost.bytes_read + row.cost.bytes_written);
}

void print_row(const ProfileRow& row, double steps, double step_seconds) {
  fmt::print("  {:<42} {:>8.5g} {:>10.3f} {:>6.1f}%", label(row),
             static_cast<double>(row.calls) / steps, 1e3 * row.seconds / steps,
             100 * row.seconds / steps / step_seconds);
  if (row.kind == ProfileKind::op && row.seconds > 0) {
    fmt::print(" {:>9.1f} {:>7.1f}", row.flops_per_second() * 1e-9, row.bytes_per_second() * 1e-9);
    if (row.roofline_seconds > 0) fmt::print(" {:>8.1f}%", 100 * row.roofline_fraction());
  }
  fmt::print("\n");
}

void print_head(const char* first) {
  fmt::print("{:<44} {:>8} {:>10} {:>7} {:>9} {:>7} {:>9}\n", first, "calls", "ms", "share",
             "GFLOP/s", "GB/s", "roofline");
}

Json row_json(const ProfileRow& row, double steps, double step_seconds, bool with_phase) {
  Json json = Json::object();
  if (with_phase) json["phase"] = row.phase;
  json["kind"] = kind_name(row.kind);
  json["name"] = row.name;
  if (row.kind == ProfileKind::op) json["kernel"] = row.kernel;
  json["calls"] = static_cast<double>(row.calls) / steps;
  json["seconds"] = row.seconds / steps;
  json["share"] = row.seconds / steps / step_seconds;
  if (row.kind != ProfileKind::op) return json;
  json["flops"] = row.cost.total_flops() / steps;
  json["bytes"] = bytes_of(row) / steps;
  json["gflops_per_second"] = row.flops_per_second() * 1e-9;
  json["gbytes_per_second"] = row.bytes_per_second() * 1e-9;
  json["roofline_fraction"] =
      row.roofline_seconds > 0 ? Json(row.roofline_fraction()) : Json(nullptr);
  return json;
}

}  // namespace

void print_profile(const Profile& profile, const MeasuredPeaks& peaks) {
  const auto steps = static_cast<double>(profile.steps);
  const double step_seconds = profile.seconds / steps;
  const StreamBandwidth& stream = peaks.stream;
  fmt::print(
      "\nprofile of {}, of {} each; roofline: {}; memory read {:.1f}, copy {:.1f}, "
      "triad {:.1f} GB/s\n",
      counted(profile.steps, "step"), format_seconds(step_seconds), peaks.matmul_names,
      stream.read * 1e-9, stream.copy * 1e-9, stream.triad * 1e-9);
  std::string phase;
  for (const ProfileRow& row : profile.rows) {
    if (row.phase != phase) {
      phase = row.phase;
      double seconds = 0;
      for (const ProfileRow& other : profile.rows)
        seconds += other.phase == phase ? other.seconds : 0;
      print_head(fmt::format("{}: {:.3f} ms, {:.1f} %",
                             phase == "step" ? "outside of phases" : phase, 1e3 * seconds / steps,
                             100 * seconds / profile.seconds)
                     .c_str());
    }
    print_row(row, steps, step_seconds);
  }
  print_head("all phases");
  for (const ProfileRow& row : over_phases(profile)) print_row(row, steps, step_seconds);
}

Json profile_json(const Profile& profile, const MeasuredPeaks& peaks) {
  const auto steps = static_cast<double>(profile.steps);
  const double step_seconds = profile.seconds / steps;
  Json rows = Json::array(), sums = Json::array();
  for (const ProfileRow& row : profile.rows)
    rows.push_back(row_json(row, steps, step_seconds, true));
  for (const ProfileRow& row : over_phases(profile))
    sums.push_back(row_json(row, steps, step_seconds, false));
  const auto& flops = peaks.peaks.flops_per_second;
  const auto tflops = [&](FlopFormat format) { return flops[static_cast<size_t>(format)] * 1e-12; };
  return {{"steps", profile.steps},
          {"step_seconds", step_seconds},
          {"peaks",
           {{"f32_tflops", tflops(FlopFormat::f32)},
            {"bf16_tflops", tflops(FlopFormat::bf16)},
            {"read_gbytes_per_second", peaks.stream.read * 1e-9},
            {"copy_gbytes_per_second", peaks.stream.copy * 1e-9},
            {"triad_gbytes_per_second", peaks.stream.triad * 1e-9}}},
          {"rows", std::move(rows)},
          {"over_phases", std::move(sums)}};
}

}  // namespace viaduct::cli
