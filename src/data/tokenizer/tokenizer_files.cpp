#include "data/tokenizer/tokenizer_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"

namespace viaduct {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;

}  // namespace

bool TokenizerFiles::has(const std::string& name) const {
  return texts_ ? texts_->contains(name) : std::filesystem::exists(folder_ / name);
}

std::string TokenizerFiles::text(const std::string& name) const {
  if (!texts_) return read_file(folder_ / name, kMaxBytes);
  const auto found = texts_->find(name);
  VIADUCT_CHECK(IoError, found != texts_->end(), "{}: holds no {}", where(), name);
  return found->second;
}

std::optional<nlohmann::json> TokenizerFiles::object(const std::string& name) const {
  if (!texts_) return read_json_object(folder_ / name);
  if (!has(name)) return std::nullopt;
  auto document = parse_json<nlohmann::json>(text(name), where(name));
  VIADUCT_CHECK(IoError, document.is_object(), "{}: expected a JSON object, found {}", where(name),
                document.type_name());
  return document;
}

}  // namespace viaduct
