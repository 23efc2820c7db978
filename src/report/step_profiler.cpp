#include "report/step_profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/file.h"
#include "report/machine_peaks.h"
#include "run/rank_device.h"
#include "timeline/memory_history.h"

namespace viaduct {
namespace {

std::map<std::string, int64_t> held_bytes(const Device& device) {
  std::map<std::string, int64_t> held;
  const auto& bytes = device.memory().bytes_by_tag;
  for (size_t tag = 0; tag < bytes.size(); ++tag) {
    if (bytes[tag] > 0)
      held[std::string(memory_tag_name(static_cast<MemoryTag>(tag)))] = bytes[tag];
  }
  return held;
}

void write(const std::filesystem::path& path, const std::string& text) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  write_file_atomically(path, text);
}

}  // namespace

std::filesystem::path trace_path(const RunConfig& config, GlobalRank rank) {
  return std::filesystem::path(config.checkpoint.save.value_or("")) /
         fmt::format("trace_rank_{:05}.json", rank.value);
}

std::filesystem::path memory_history_path(const RunConfig& config, GlobalRank rank) {
  std::filesystem::path path = config.profiling.memory_snapshot_path;
  const std::string name =
      fmt::format("{}_rank_{:05}{}", path.stem().string(), rank.value, path.extension().string());
  return path.replace_filename(name);
}

StepProfiler::StepProfiler(const RunConfig& config, Device& device, GlobalRank rank)
    : config_(config), settings_(config.profiling), device_(device), rank_(rank) {
  const auto& ranks = settings_.profile_ranks;
  const bool chosen = std::find(ranks.begin(), ranks.end(), rank.value) != ranks.end();
  traces_ = chosen && settings_.trace;
  remembers_ = chosen && settings_.record_memory_history;
  marks_ = chosen && settings_.use_nsys_profiler && device.scope_marks() != nullptr;
  record_.set_with_shapes(traces_ && settings_.record_shapes);
  if (traces_) {
    trace_.rank = rank.value;
    trace_.process = fmt::format("rank {}", rank.value);
    trace_.peaks = measure_peaks(device.pool(), cpu_isa_of(config.dist)).peaks;
  }
  if (remembers_) device_.set_record(&record_);
}

StepProfiler::~StepProfiler() {
  detach();
  if (watched_) watch(false);
}

void StepProfiler::watch(bool on) {
  watched_ = on;
  if (on) device_.watch(true);
  record_.set_marks(on ? device_.scope_marks() : nullptr);
  if (!on) device_.watch(false);
}

void StepProfiler::detach() {
  if (device_.record() == &record_) device_.set_record(nullptr);
}

StepRecord* StepProfiler::begin_step(int64_t number) {
  const bool inside = settings_.profile_step_start < number && number <= settings_.profile_step_end;
  if (first_step_ == 0 && number > settings_.profile_step_end) detach();  // resumed past them
  if (first_step_ == 0 && remembers_) record_.drop_finished();
  if (inside && !written_) {
    if (first_step_ == 0) {
      first_step_ = number;
      trace_.from = record_.position();
      trace_.from_seconds = steady_seconds();
      trace_.held_bytes = held_bytes(device_);
    }
    last_step_ = number;
    if (marks_ && !watched_) watch(true);
    if (traces_ || remembers_ || marks_) device_.set_record(&record_);
  }
  return device_.record() == &record_ ? &record_ : nullptr;
}

std::vector<std::filesystem::path> StepProfiler::end_step(int64_t number) {
  if (!remembers_) detach();
  return number == settings_.profile_step_end ? finish() : std::vector<std::filesystem::path>();
}

std::vector<std::filesystem::path> StepProfiler::finish() {
  if (first_step_ == 0 || written_) return {};
  written_ = true;
  detach();
  if (watched_) watch(false);
  write();
  record_ = StepRecord();
  std::vector<std::filesystem::path> files;
  for (const int rank : std::set(settings_.profile_ranks.begin(), settings_.profile_ranks.end())) {
    if (settings_.trace) files.push_back(trace_path(config_, {rank}));
    if (settings_.record_memory_history) files.push_back(memory_history_path(config_, {rank}));
  }
  return files;
}

void StepProfiler::write() const {
  if (traces_) viaduct::write(trace_path(config_, rank_), chrome_trace(record_, trace_));
  if (!remembers_) return;
  MemoryHistorySettings history;
  history.rank = rank_.value;
  history.first_step = first_step_, history.last_step = last_step_;
  history.from_seconds = trace_.from_seconds;
  viaduct::write(memory_history_path(config_, rank_), memory_history(record_, history));
}

}  // namespace viaduct
