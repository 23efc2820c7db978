#include "base/toolkit_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace viaduct {
namespace {

namespace fs = std::filesystem;
using Environment = std::function<const char*(const char*)>;

std::string variable(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value != nullptr ? value : "";
}

/// The entries of a folder, sorted; none if it cannot be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    entries.push_back(at->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// Adds the file in the wheels of the Pythons below `prefix`, as they install packages.
void add_wheels(const fs::path& prefix, const std::string& file, std::vector<std::string>& places) {
  std::error_code error;
  for (const char* library : {"lib", "local/lib"}) {
    for (const fs::path& python : entries_of(prefix / library)) {
      if (!python.filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : entries_of(python / packages / "nvidia")) {
          const std::string place = package / "lib" / file;
          const bool known = std::find(places.begin(), places.end(), place) != places.end();
          if (!known && fs::exists(place, error)) places.push_back(place);
        }
      }
    }
  }
}

/// Folders of PATH that have a Python.
std::vector<fs::path> folders_of_pythons(std::string_view path) {
  std::vector<fs::path> folders;
  std::error_code error;
  while (!path.empty()) {
    const size_t end = std::min(path.find(':'), path.size());
    const fs::path folder(path.substr(0, end));
    if (!folder.empty() &&
        (fs::exists(folder / "python3", error) || fs::exists(folder / "python", error)))
      folders.push_back(folder);
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return folders;
}

}  // namespace

std::vector<std::string> toolkit_places(const std::string& file, const Environment& environment) {
  std::vector<std::string> places{file}, folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string folder = variable(environment, name); !folder.empty())
      folders.push_back(folder);
  folders.emplace_back("/usr/local/cuda");
  for (const std::string& folder : folders)
    for (const char* part : {"/lib64/", "/lib/"}) places.push_back(folder + part + file);
  if (const std::string own = variable(environment, "VIRTUAL_ENV"); !own.empty())
    add_wheels(own, file, places);
  for (const fs::path& folder : folders_of_pythons(variable(environment, "PATH")))
    add_wheels(folder.parent_path(), file, places);
  if (const std::string home = variable(environment, "HOME"); !home.empty())
    add_wheels(fs::path(home) / ".local", file, places);
  return places;
}

void* open_toolkit_library(const std::string& file, int flags, std::string& reasons,
                           const char* named) {
  reasons.clear();
  const auto environment = [](const char* name) -> const char* { return std::getenv(name); };
  for (const std::string& place :
       named != nullptr ? std::vector<std::string>{named} : toolkit_places(file, environment)) {
    if (void* library = ::dlopen(place.c_str(), flags)) return library;
    const char* reason = ::dlerror();
    reasons += (reasons.empty() ? "" : "; ") + std::string(reason != nullptr ? reason : place);
  }
  return nullptr;
}

std::string file_of_library(void* library) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "";
  return map->l_name;
}

std::string describe_toolkit_library(const ToolkitLibrary& library) {
  std::string reasons;
  const char* const named = library.variable != nullptr ? std::getenv(library.variable) : nullptr;
  void* const opened = open_toolkit_library(library.file, RTLD_NOW | RTLD_LOCAL, reasons, named);
  if (opened == nullptr) return "not found; tried: " + reasons;
  return file_of_library(opened) + (reasons.empty() ? "" : "; tried before: " + reasons);
}

}  // namespace viaduct
