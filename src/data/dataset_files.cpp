#include "data/dataset_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/given_path.h"
#include "base/nearest.h"
#include "config/problems.h"
#include "data/dataset_fingerprint.h"
#include "data/image_files.h"
#include "data/indexed_dataset.h"
#include "data/score_mask.h"

namespace viaduct {
namespace {

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// The data sets in the folder of `prefix`, as prefixes in it.
std::vector<std::string> neighbours(const std::filesystem::path& prefix) {
  const auto folder = prefix.parent_path();
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const auto stem = entry.path().stem();
    if (entry.path().extension() == ".idx" && stem.extension() != ".mask" &&
        stem.extension() != ".images")
      names.push_back((folder / entry.path().stem()).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// What the user may have meant.
std::string advice(const std::string& prefix) {
  const std::filesystem::path path(prefix);
  const std::string stem = std::filesystem::path(path).replace_extension().string();
  if ((path.extension() == ".bin" || path.extension() == ".idx") && is_file(stem + ".idx"))
    return fmt::format("; give the prefix, {}", stem);
  if (is_file(path)) {
    return fmt::format(
        "; it is a file: `viaduct data tokenize --input {} --tokenizer FOLDER --output PREFIX` "
        "makes a data set of a text",
        prefix);
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const std::vector<std::string> inside = neighbours(path / "x");
    if (inside.empty()) return folder_text(path) + ", and no data set";
    return fmt::format("; it is a folder, with the {} {}",
                       inside.size() == 1 ? "data set" : "data sets", fmt::join(inside, ", "));
  }
  const auto near = nearest_name(prefix, neighbours(path));
  return near ? "; nearest: " + *near : "";
}

/// What the data set has lost of the files beside its tokens.
std::string lost_files(const std::string& prefix) {
  try {
    const IndexedDataset dataset(prefix, IndexCheck::on_use);
    const std::string mask = mask_files_problem(dataset);
    return mask.empty() ? image_files_problem(dataset) : mask;
  } catch (const IoError&) {
    return "";  // damaged; reported where it is read
  }
}

}  // namespace

void check_dataset_files(const std::vector<std::string>& prefixes, std::string_view where) {
  Problems problems;
  for (const std::string& prefix : prefixes) {
    bool there = true;
    for (const char* ending : {".idx", ".bin"}) {
      there = is_file(prefix + ending);
      if (there) continue;
      problems.add("{}: no data set {}: {}{} does not exist{}", where, prefix, prefix, ending,
                   advice(prefix));
      break;
    }
    if (!there) continue;
    const std::string lost = lost_files(prefix);
    if (!lost.empty()) problems.add("{}: {}", where, lost);
  }
  problems.throw_if_any();
}

void check_dataset_files(const DatasetConfig& config) {
  if (config.mock) return;
  check_dataset_files(dataset_prefixes(config),
                      config.blend ? "dataset.blend" : "dataset.blend_per_split");
}

}  // namespace viaduct
