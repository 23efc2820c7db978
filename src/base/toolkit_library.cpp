#include "base/toolkit_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace viaduct {

namespace {

std::vector<std::string> places_of(const std::string& file) {
  std::vector<std::string> places{file};
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(variable)) folders.emplace_back(folder);
  folders.emplace_back("/usr/local/cuda");
  for (const std::string& folder : folders)
    for (const char* part : {"/lib64/", "/lib/"}) places.push_back(folder + part + file);
  return places;
}

}  // namespace

void* open_toolkit_library(const std::string& file, int flags, std::string& reasons,
                           const char* named) {
  reasons.clear();
  for (const std::string& place :
       named != nullptr ? std::vector<std::string>{named} : places_of(file)) {
    if (void* library = ::dlopen(place.c_str(), flags)) return library;
    const char* reason = ::dlerror();
    reasons += (reasons.empty() ? "" : "; ") + std::string(reason != nullptr ? reason : place);
  }
  return nullptr;
}

}  // namespace viaduct
