#pragma once
// The file `metrics.jsonl`: one JSON object a line, appended and handed to the operating system
// line by line.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace viaduct {

class AppendFile;

class MetricsFile {
 public:
  /// Opens `path` for a run that has done `steps_done` steps (0: from the start).
  ///
  /// The file tells one history, with one line for each step and kind (a step's metrics, a
  /// validation, tasks, answers, a stop). Lines of an earlier session that this run does not
  /// continue (their step is past `steps_done`, a run from the start continues nothing, or they
  /// cannot be parsed: a line truncated by a crash), and second lines of one step and kind, move to
  /// NAME.dropped.jsonl beside it, with a warning that counts them. So a run resumed from a
  /// checkpoint at step 100 repeats steps 101… in the file exactly once. IoError on failure.
  MetricsFile(const std::filesystem::path& path, int64_t steps_done);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Appends `json` (one line, without its end), unless an earlier session wrote a line of this
  /// step and kind; returns whether it did. IoError on failure.
  bool write(std::string_view json);
  /// Flushes all lines to disk.
  void sync();

  /// The line of a validation at `steps_done` that an earlier session wrote (of the `set`-th data
  /// set, where there are several); "" if there is none.
  std::string validation_before(std::optional<int64_t> set = std::nullopt) const;
  /// Whether an earlier session wrote the test at `steps_done`, and an evaluation on tasks.
  bool test_before() const;
  bool tasks_before() const;

 private:
  using Key = std::pair<int64_t, std::string>;  // step and kind

  void take_history(const std::filesystem::path& path, int64_t steps_done);

  std::map<Key, std::string> before_;  // lines of earlier sessions at their last common step
  int64_t steps_done_ = 0;
  std::unique_ptr<AppendFile> file_;
};

}  // namespace viaduct
