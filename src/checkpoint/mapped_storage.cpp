#include "checkpoint/mapped_storage.h"

namespace viaduct {

MappedStorage map_storage(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  // An empty file cannot be mapped, but an empty view needs an address.
  static constexpr std::byte kNothing{};
  const std::byte* data = file->size() > 0 ? file->data() : &kNothing;
  const auto bytes = static_cast<int64_t>(file->size());
  return {std::make_shared<Storage>(const_cast<std::byte*>(data), bytes, [file](Storage&) {}),
          file};
}

void check_and_give_back(const MappedFile& file) {
  file.check();
  file.give_back();
}

}  // namespace viaduct
