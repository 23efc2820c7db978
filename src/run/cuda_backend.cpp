#include "run/cuda_backend.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/toolkit_library.h"

// Null in programs without a built-in backend.
extern "C" __attribute__((weak)) const viaduct::CudaBackend* viaduct_cuda_backend();

namespace viaduct {
namespace {

constexpr const char* kLibrary = "libviaduct_cuda.so";
constexpr const char* kVariable = "VIADUCT_CUDA_LIBRARY";

using Entry = const CudaBackend* (*)();

std::vector<std::string> places() {
  if (const char* named = std::getenv(kVariable)) return {named};
  std::vector<std::string> list;
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  if (!none) {
    const auto folder = program.parent_path();
    list.push_back(folder / kLibrary);
    list.push_back(folder.parent_path() / "lib" / kLibrary);
  }
  list.emplace_back(kLibrary);
  return list;
}

/// Loads the toolkit's library that the library at `place` needs and the loader did not find: its
/// name comes first in "X: cannot open shared object file". False: nothing of the toolkit was
/// missing.
bool open_what_it_needs(const std::string& place, std::string& reason) {
  const std::string missing = reason.substr(0, reason.find(':'));
  if (missing.find('/') != std::string::npos || !missing.starts_with("libcublasLt")) return false;
  std::string reasons;
  if (open_toolkit_library(missing, RTLD_NOW | RTLD_GLOBAL, reasons) != nullptr) return true;
  reason = fmt::format("{} needs {}: {}", place, missing, reasons);
  return false;
}

/// The library of kernels at `place`, or null and the reason.
void* open_kernels(const std::string& place, std::string& reason) {
  const auto open = [&] {
    void* const library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) reason = ::dlerror();
    return library;
  };
  void* const library = open();
  return library == nullptr && open_what_it_needs(place, reason) ? open() : library;
}

/// Whether somebody put a library where it is looked for, or named one.
bool is_installed() {
  if (std::getenv(kVariable) != nullptr) return true;
  const std::vector<std::string> files = places();
  std::error_code none;
  return std::any_of(files.begin(), files.end(),
                     [&](const std::string& file) { return std::filesystem::exists(file, none); });
}

/// The library stays loaded: one of its devices may be in use.
const CudaBackend& load() {
  std::string reasons;
  for (const std::string& place : places()) {
    std::string reason;
    void* const library = open_kernels(place, reason);
    if (library == nullptr) {
      reasons += (reasons.empty() ? "" : "; ") + reason;
      continue;
    }
    const auto entry = reinterpret_cast<Entry>(::dlsym(library, "viaduct_cuda_backend"));
    VIADUCT_CHECK(ConfigError, entry != nullptr,
                  "dist.device=cuda: {} is not a library of GPU kernels: it has no "
                  "viaduct_cuda_backend",
                  place);
    return *entry();
  }
  fail<ConfigError>(
      "dist.device=cuda: {} cannot be loaded ({}). Build it with `cmake --preset cuda && cmake "
      "--build --preset cuda` and put it beside the program, or name it in {}; or train with "
      "dist.device=cpu",
      kLibrary, reasons, kVariable);
}

}  // namespace

const CudaBackend& cuda_backend() {
  const CudaBackend& backend = viaduct_cuda_backend != nullptr ? *viaduct_cuda_backend() : load();
  VIADUCT_CHECK(ConfigError, backend.build == CudaBackendBuild{},
                "dist.device=cuda: {} and this program are from different builds: build both from "
                "the same sources",
                kLibrary);
  return backend;
}

CudaStatus cuda_status() {
  CudaStatus status;
  status.installed = viaduct_cuda_backend != nullptr || is_installed();
  try {
    const CudaBackend& backend = cuda_backend();
    backend.target();
    const GpuDescription gpu = backend.describe_gpu();
    status.gpu = fmt::format("{} ({})", gpu.name, gpu.libraries);
  } catch (const Error& error) {
    status.problem = error.what();
  }
  return status;
}

}  // namespace viaduct
