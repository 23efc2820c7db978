#pragma once
// Where the files of an adapter are, and what is mistaken for them.

#include <filesystem>
#include <memory>

#include "checkpoint/peft_folder.h"
#include "checkpoint/tensor_source.h"

namespace viaduct {

/// The folder of an adapter's files, and its tensors as stored.
struct AdapterFiles {
  std::filesystem::path folder;
  std::unique_ptr<TensorSource> tensors;
};

/// Of PEFT's folder, a step folder, or a save folder with its latest step. ConfigError for anything
/// else, with what it is and, if it can be known, what was meant: a model, a file of llama.cpp, a
/// folder inside a run, one that has adapters inside.
AdapterFiles open_adapter_files(const std::filesystem::path& given);

}  // namespace viaduct
