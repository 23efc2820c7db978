#include "report/metrics_file.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "base/units.h"
#include "report/append_file.h"

namespace viaduct {
namespace {

constexpr const char* kStepLine = "step";
constexpr const char* kValidationLine = "validation";
constexpr const char* kTestLine = "test";
constexpr const char* kTasksLine = "tasks";
constexpr const char* kAnswersLine = "answers";
constexpr const char* kStopLine = "stop";

std::string validation_kind(std::optional<int64_t> set) {
  return set ? fmt::format("{} {}", kValidationLine, *set) : std::string(kValidationLine);
}

/// Step and kind of a line; nothing if it is not such a line.
std::optional<std::pair<int64_t, std::string>> key_of(std::string_view line) {
  const auto read = try_parse_json<nlohmann::json>(line);
  if (!read || !read->is_object()) return std::nullopt;
  const nlohmann::json& object = *read;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  std::string kind = kStepLine;
  if (object.contains("stopped")) {
    kind = kStopLine;
  } else if (object.contains("test_loss")) {
    kind = kTestLine;
  } else if (object.contains("validation_tasks")) {
    kind = kTasksLine;
  } else if (object.contains("validation_answers")) {
    kind = kAnswersLine;
  } else if (object.contains("validation_loss")) {
    const auto set = object.find("validation_set");
    const bool one_of_many = set != object.end() && set->is_number_integer();
    kind = validation_kind(one_of_many ? std::optional(set->get<int64_t>()) : std::nullopt);
  }
  return std::pair(step->get<int64_t>(), kind);
}

}  // namespace

void MetricsFile::take_history(const std::filesystem::path& path, int64_t steps_done) {
  std::string kept, dropped;
  int64_t dropped_lines = 0;
  std::set<Key> seen;
  {
    const MappedFile file(path);
    std::string_view rest = file.text();
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (line.empty()) continue;
      const auto key = end == std::string_view::npos ? std::nullopt : key_of(line);
      const bool keep =
          key && steps_done > 0 && key->first <= steps_done && seen.insert(*key).second;
      (keep ? kept : dropped).append(line).push_back('\n');
      dropped_lines += keep ? 0 : 1;
      if (!keep || key->first != steps_done) continue;
      before_.emplace(*key, line);
    }
  }
  if (dropped_lines == 0) return;
  auto aside = path;
  aside.replace_extension(".dropped" + path.extension().string());
  AppendFile(aside, AppendFile::Mode::append).append(dropped);
  write_file_atomically(path, kept);
  log_warning("{}: {} past step {}, cut short, or repeated, moved to {}", path.string(),
              counted(dropped_lines, "line"), steps_done, aside.filename().string());
}

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t steps_done)
    : steps_done_(steps_done) {
  if (std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) > 0)
    take_history(path, steps_done);
  file_ = std::make_unique<AppendFile>(path, AppendFile::Mode::append);
}

MetricsFile::~MetricsFile() = default;

bool MetricsFile::write(std::string_view json) {
  if (!before_.empty()) {
    const auto key = key_of(json);
    if (key && before_.contains(*key)) return false;
  }
  // One call, so that lines of two writers would not mix.
  file_->append(std::string(json) + "\n");
  return true;
}

std::string MetricsFile::validation_before(std::optional<int64_t> set) const {
  const auto line = before_.find({steps_done_, validation_kind(set)});
  return line == before_.end() ? "" : line->second;
}

bool MetricsFile::test_before() const {
  return before_.contains({steps_done_, kTestLine});
}

bool MetricsFile::tasks_before() const {
  return before_.contains({steps_done_, kTasksLine});
}

void MetricsFile::sync() {
  file_->sync();
}

}  // namespace viaduct
