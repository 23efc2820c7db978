#pragma once
// Weights that are not read, and what makes readable ones of them.

#include <filesystem>
#include <string>

namespace viaduct {

/// ConfigError for a file of PyTorch (.bin, .pth, .pt, .ckpt), or a folder that holds such weights:
/// reading a pickle runs what it contains. The message has the command that converts.
void refuse_pickle(const std::filesystem::path& path);

/// The first GGUF file of a folder, "" without any.
std::string first_gguf(const std::filesystem::path& folder);

}  // namespace viaduct
