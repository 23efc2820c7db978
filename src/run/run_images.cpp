#include "run/run_images.h"

#include <algorithm>

#include "image/open_images.h"

namespace viaduct {

ImageOpener run_images(const RunSetup& setup) {
  const auto& images = setup.config.dataset.images;
  if (!images) return {};
  std::vector<std::filesystem::path> folders;
  const auto add = [&](const std::filesystem::path& given) {
    // An architecture may be named by its file.
    auto folder = std::filesystem::is_regular_file(given) ? given.parent_path() : given;
    if (!folder.empty() && std::ranges::find(folders, folder) == folders.end())
      folders.push_back(std::move(folder));
  };
  add(setup.tokenizer_files.where());
  if (setup.pretrained) add(setup.pretrained->path);
  if (setup.config.model.hf_config) add(*setup.config.model.hf_config);
  return image_opener(std::move(folders), *images);
}

}  // namespace viaduct
