#include "data/image_files.h"

#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "data/score_mask.h"
#include "data/token_record.h"

namespace viaduct {
namespace {

constexpr std::array kEndings{".idx", ".bin", ".jsonl"};

}  // namespace

std::string images_prefix(const std::string& prefix) {
  return prefix + ".images";
}

bool has_images(const std::string& prefix) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(images_prefix(prefix) + ".idx", ignored);
}

std::string image_files_problem(const IndexedDataset& dataset) {
  std::vector<std::string> missing;
  for (const char* ending : kEndings) {
    std::string file = images_prefix(dataset.prefix()) + ending;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(file, ignored)) missing.push_back(std::move(file));
  }
  if (missing.empty()) return "";
  std::string why = "it has a part of the files about its pictures";
  if (missing.size() == kEndings.size()) {
    if (!has_mask(dataset.prefix())) return "";  // only conversations have pictures
    const auto record = read_token_record(dataset);
    if (!record || !record->conversations || record->conversations->images == 0) return "";
    why = fmt::format(
        "its rows have {} ({})",
        counted(record->conversations->images, "place of a picture", "places of pictures"),
        token_record_path(dataset.prefix()));
  }
  return fmt::format(
      "data set {0}: {1}, but {2} {3} not exist, so nothing says which pictures; copy what is "
      "missing beside {0}.bin, or make the data set again (viaduct data chat)",
      dataset.prefix(), why, fmt::join(missing, ", "), missing.size() == 1 ? "does" : "do");
}

void check_image_files(const IndexedDataset& dataset) {
  const std::string problem = image_files_problem(dataset);
  VIADUCT_CHECK(IoError, problem.empty(), "{}", problem);
}

void remove_images(const std::string& prefix) {
  for (const char* ending : kEndings) {
    std::error_code error;
    std::filesystem::remove(images_prefix(prefix) + ending, error);
    VIADUCT_CHECK(IoError, !error, "{}{}: cannot remove it: {}", images_prefix(prefix), ending,
                  error.message());
  }
}

}  // namespace viaduct
