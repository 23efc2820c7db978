#include "existing_output.h"

#include "base/error.h"

namespace viaduct::cli {

void add_overwrite(CLI::App& app, bool& overwrite) {
  app.add_flag("--overwrite", overwrite, "Replace files that are there already");
}

void check_new_output(const std::vector<std::filesystem::path>& files, bool overwrite) {
  if (overwrite) return;
  for (const auto& file : files) {
    std::error_code error;
    const bool full = std::filesystem::is_regular_file(file, error) &&
                      std::filesystem::file_size(file, error) > 0 && !error;
    VIADUCT_CHECK(ConfigError, !full,
                  "--output: {} exists and is not empty; give another name, or replace it with "
                  "--overwrite",
                  file.string());
  }
}

void check_new_dataset(const std::string& prefix, bool overwrite) {
  VIADUCT_CHECK(
      ConfigError, std::filesystem::path(prefix).has_filename(),
      "--output: {} names a folder; expected what the names of the files begin with, such "
      "as {}train",
      prefix, prefix);
  std::vector<std::filesystem::path> files;
  for (const char* part : {"", ".mask", ".images"}) {
    for (const char* ending : {".bin", ".idx"}) files.emplace_back(prefix + part + ending);
  }
  check_new_output(files, overwrite);
}

void make_folder_of_dataset(const std::string& prefix) {
  const auto folder = std::filesystem::path(prefix).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  VIADUCT_CHECK(IoError, !error, "--output {}: cannot make the folder {}: {}", prefix,
                folder.string(), error.message());
}

}  // namespace viaduct::cli
