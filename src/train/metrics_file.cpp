#include "train/metrics_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/log.h"
#include "train/append_file.h"

namespace viaduct {
namespace {

/// A line that a run with `steps_done` steps behind it has in common with the session that wrote
/// it.
bool belongs(std::string_view line, int64_t steps_done) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return false;
  const auto step = object.find("step");
  return step != object.end() && step->is_number_integer() && step->get<int64_t>() <= steps_done;
}

void drop_other_history(const std::filesystem::path& path, int64_t steps_done) {
  std::string kept, dropped;
  int64_t dropped_lines = 0;
  {
    const MappedFile file(path);
    std::string_view rest = file.text();
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (line.empty()) continue;
      const bool keep = end != std::string_view::npos && belongs(line, steps_done);
      (keep ? kept : dropped).append(line).push_back('\n');
      dropped_lines += keep ? 0 : 1;
    }
  }
  if (dropped_lines == 0) return;
  auto aside = path;
  aside.replace_extension(".dropped" + path.extension().string());
  AppendFile(aside, AppendFile::Mode::append).append(dropped);
  write_file_atomically(path, kept);
  log_warning("{}: {} lines past step {}, or cut short, moved to {}", path.string(), dropped_lines,
              steps_done, aside.filename().string());
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t steps_done) {
  if (std::filesystem::exists(path) && std::filesystem::file_size(path) > 0)
    drop_other_history(path, steps_done);
  file_ = std::make_unique<AppendFile>(path, AppendFile::Mode::append);
}

MetricsFile::~MetricsFile() = default;

void MetricsFile::write(std::string_view json) {
  // One call, so that lines of two writers would not mix.
  file_->append(std::string(json) + "\n");
}

}  // namespace viaduct
