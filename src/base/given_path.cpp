#include "base/given_path.h"

#include <algorithm>
#include <vector>

#include "base/nearest.h"
#include "base/units.h"

namespace viaduct {
namespace {

/// "models/x/" is models/x.
std::filesystem::path without_slash(const std::filesystem::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

void check_given_path(std::string_view where, const std::filesystem::path& path,
                      std::string_view expected) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::status(path, error))) return;
  // What cannot be examined may exist: whoever opens it says why it cannot be read.
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    return;
  fail<MissingPath>("{}{}: no such file or folder; expected {}{}", where, path.string(), expected,
                    nearest_path_text(path));
}

std::string folder_text(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return "";
  int64_t files = 0;
  std::string first;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (!at->is_regular_file(ignored)) continue;
    const std::string name = at->path().filename().string();
    if (files++ == 0 || name < first) first = name;
  }
  if (files == 0) return "; it is a folder without files";
  return fmt::format("; it is a folder with {}, for example {}", counted(files, "file"), first);
}

std::string nearest_path_text(const std::filesystem::path& path) {
  const std::filesystem::path entry = without_slash(path), folder = entry.parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    return "; there is no folder " + folder.string();
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(folder.empty() ? "." : folder, error), end;
       !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());  // the same answer in any order of the folder
  const auto near = nearest_name(entry.filename().string(), names);
  return near ? "; nearest: " + (folder / *near).string() : "";
}

}  // namespace viaduct
