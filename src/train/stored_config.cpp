#include "train/stored_config.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/version.h"
#include "config/problems.h"

namespace viaduct {
namespace {

constexpr std::string_view kWrittenBy = "# written by viaduct ";

/// "0.1.0"; "" for a file that does not say it.
std::string version_of(std::string_view text) {
  if (!text.starts_with(kWrittenBy)) return "";
  text.remove_prefix(kWrittenBy.size());
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

std::string stored_config_text(const std::string& yaml) {
  return fmt::format("{}{}\n{}", kWrittenBy, program_version(), yaml);
}

ConfigOutcome read_stored_config(const Schema& schema, const std::filesystem::path& file,
                                 std::vector<std::string>& unread) {
  Problems problems;
  ConfigOutcome outcome = read_config(schema, {file, {}}, problems);
  if (problems.empty()) return outcome;
  constexpr size_t kLargest = size_t{1} << 20;
  const std::string version = version_of(read_file(file, kLargest));
  const std::string by = version.empty()                ? "an earlier version"
                         : version == program_version() ? "this version, and was edited"
                                                        : "viaduct " + shown_name(version);
  for (const std::string& problem : problems.all())
    unread.push_back(fmt::format(
        "{} (the file is of {}): the setting is not compared with those of this run; if it "
        "mattered, give it by its name here",
        problem, by));
  return outcome;
}

}  // namespace viaduct
