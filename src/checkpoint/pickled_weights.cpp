#include "checkpoint/pickled_weights.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "checkpoint/gguf_file.h"

namespace viaduct {
namespace {

bool is_pickle(const std::filesystem::path& path) {
  static const std::filesystem::path kEnds[] = {".bin", ".pth", ".pt", ".ckpt"};
  return std::find(std::begin(kEnds), std::end(kEnds), path.extension()) != std::end(kEnds);
}

/// Names of weights: folders also hold other files that end in .bin, as datasets.
bool names_weights(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return is_pickle(path) &&
         (name.starts_with("pytorch_model") || name.starts_with("consolidated") ||
          name.starts_with("model") || name.starts_with("diffusion_pytorch"));
}

template <class Wanted>
std::string first_file(const std::filesystem::path& folder, Wanted wanted) {
  std::string first;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (wanted(at->path()) && (first.empty() || name < first)) first = name;
  }
  return first;
}

constexpr const char* kReason =
    "weights as a pickle of PyTorch are not read, because reading one runs whatever it contains; "
    "safetensors and GGUF are";

}  // namespace

void refuse_pickle(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    const std::string name = first_file(path, names_weights);
    VIADUCT_CHECK(
        ConfigError, name.empty(),
        "{}: {}. If you trust it, this makes a folder with safetensors, in an environment "
        "with the packages torch and transformers: "
        "python3 -c \"import sys; from transformers import AutoModelForCausalLM as M, "
        "AutoTokenizer as T; M.from_pretrained(sys.argv[1], torch_dtype='auto')"
        ".save_pretrained(sys.argv[2]); "
        "T.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])\" '{}' NEW_FOLDER",
        (path / name).string(), kReason, path.string());
    return;
  }
  VIADUCT_CHECK(
      ConfigError, !is_pickle(path),
      "{}: {}. If you trust it, this makes safetensors, in an environment with the packages "
      "torch and safetensors; put config.json and the tokenizer beside the result: "
      "python3 -c \"import sys, torch; from safetensors.torch import save_file; "
      "save_file({{name: value.clone().contiguous() for name, value in "
      "torch.load(sys.argv[1], map_location='cpu', weights_only=True).items()}}, "
      "sys.argv[2])\" '{}' model.safetensors",
      path.string(), kReason, path.string());
}

std::string first_gguf(const std::filesystem::path& folder) {
  return first_file(folder, [](const std::filesystem::path& path) { return is_gguf(path); });
}

}  // namespace viaduct
