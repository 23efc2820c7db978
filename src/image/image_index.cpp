#include "image/image_index.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_members.h"
#include "base/json_reader.h"
#include "base/units.h"
#include "data/image_files.h"
#include "image/read_picture.h"

namespace viaduct {
namespace {

using nlohmann::json;

constexpr size_t kMostFileBytes = size_t{8} << 30;  // of the lines about pictures

std::string file_of_pictures(const std::string& prefix) {
  return images_prefix(prefix) + ".jsonl";
}

/// The bytes of a picture's file.
std::string bytes_of(const std::filesystem::path& path) {
  return read_file(path, PictureLimits{}.file_bytes);
}

/// The path from the folder of `prefix`, so that both can be moved together.
std::string path_from(const std::string& prefix, const std::string& path) {
  const auto folder = std::filesystem::absolute(prefix).parent_path();
  const auto file = std::filesystem::absolute(path).lexically_normal();
  return file.lexically_proximate(folder.lexically_normal()).string();
}

int64_t count_member(const json& line, const char* name, const std::string& where) {
  const json* value = find_member(line, name);
  const auto count = value == nullptr ? std::nullopt : json_count(*value);
  VIADUCT_CHECK(IoError, count.has_value(), "{}: \"{}\" is missing or no count", where, name);
  return *count;
}

PictureFile picture_of(const json& line, const std::filesystem::path& folder,
                       const std::string& where) {
  PictureFile picture;
  const std::string path = string_member(line, "file", where);
  VIADUCT_CHECK(IoError, !path.empty(), "{}: \"file\" is missing", where);
  picture.path = (folder / path).lexically_normal().string();
  const std::string hash = string_member(line, "hash", where);
  size_t taken = 0;
  if (hash.find_first_not_of("0123456789abcdef") == std::string::npos && hash.size() == 16)
    picture.hash = std::stoull(hash, &taken, 16);
  VIADUCT_CHECK(IoError, taken == 16, "{}: \"hash\" is \"{}\", expected 16 hexadecimal digits",
                where, shown_name(hash));
  picture.height = count_member(line, "height", where);
  picture.width = count_member(line, "width", where);
  return picture;
}

}  // namespace

PictureFile read_picture_file(const std::filesystem::path& path) {
  const std::string bytes = bytes_of(path);
  const Picture picture = decode_picture(bytes, path.string());
  return {path.string(), hash64(bytes), picture.height, picture.width};
}

ImageIndexWriter::ImageIndexWriter(const std::filesystem::path& prefix, ImagePlaceTokens tokens)
    : prefix_(prefix.string()), tokens_(tokens), rows_(images_prefix(prefix_), TokenType::int32) {}

void ImageIndexWriter::add_row(std::span<const PictureFile> pictures) {
  std::vector<int32_t> numbers;
  for (const PictureFile& picture : pictures) {
    const auto [known, is_new] =
        numbers_.try_emplace({picture.path, picture.hash}, static_cast<int32_t>(files_.size()));
    if (is_new) files_.push_back(picture);
    numbers.push_back(known->second);
  }
  rows_.add_document(numbers);
}

void ImageIndexWriter::finish() {
  const std::string path = file_of_pictures(prefix_);
  OutputFile file(path);
  file.write(json{{"format", "viaduct pictures"},
                  {"image_token", tokens_.id},
                  {"tokens_per_image", tokens_.count},
                  {"pictures", files_.size()}}
                 .dump() +
             "\n");
  for (const PictureFile& picture : files_) {
    const json line{{"file", path_from(prefix_, picture.path)},
                    {"hash", fmt::format("{:016x}", picture.hash)},
                    {"height", picture.height},
                    {"width", picture.width}};
    file.write(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  }
  file.commit();
  rows_.finish();
}

ImageIndex::ImageIndex(const std::string& prefix, int64_t rows) : where_(file_of_pictures(prefix)) {
  numbers_ = std::make_shared<const IndexedDataset>(images_prefix(prefix));
  VIADUCT_CHECK(IoError, numbers_->sequence_count() == rows,
                "{}: of {}, but {} has {}: the pictures belong to other data", numbers_->prefix(),
                counted(numbers_->sequence_count(), "row"), prefix, counted(rows, "row"));
  const std::string text = read_file(where_, kMostFileBytes);
  const auto folder = std::filesystem::path(prefix).parent_path();
  int64_t number = 0, pictures = 0;
  for (std::string_view rest = text; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string place = fmt::format("{}:{}", where_, number + 1);
    const auto line = parse_json<json>(rest.substr(0, end), place);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (number > 0) {
      files_.push_back(picture_of(line, folder, place));
      continue;
    }
    tokens_ = {count_member(line, "image_token", place),
               count_member(line, "tokens_per_image", place)};
    pictures = count_member(line, "pictures", place);
  }
  VIADUCT_CHECK(IoError, number > 0 && static_cast<int64_t>(files_.size()) == pictures,
                "{}: {}, expected {}: the file is cut off", where_,
                counted(static_cast<int64_t>(files_.size()), "picture"), pictures);
}

std::vector<PictureFile> ImageIndex::row(int64_t row) const {
  std::vector<int32_t> numbers(static_cast<size_t>(count(row)));
  numbers_->read(row, 0, std::span<int32_t>(numbers));
  std::vector<PictureFile> pictures;
  for (const int32_t number : numbers) {
    VIADUCT_CHECK(IoError, static_cast<size_t>(number) < files_.size(),
                  "{}: row {} has picture {}, of {}", numbers_->prefix(), row, number,
                  files_.size());
    pictures.push_back(files_[static_cast<size_t>(number)]);
  }
  return pictures;
}

void ImageIndex::append(int64_t row, const ImageProcessor& processor, ImageBatch& batch) const {
  for (const PictureFile& picture : this->row(row)) {
    const std::string bytes = bytes_of(picture.path);
    VIADUCT_CHECK(IoError, hash64(bytes) == picture.hash,
                  "{}: the picture is another one than when {} was made (row {}); make the data "
                  "set again (viaduct data chat)",
                  picture.path, where_, row);
    processor.append(decode_picture(bytes, picture.path), picture.path, batch);
  }
}

}  // namespace viaduct
