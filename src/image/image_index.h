#pragma once
// The pictures of the rows of a data set: PREFIX.images.bin/.idx, an indexed file of int32 with the
// numbers of a row's pictures in the order of their places, and PREFIX.images.jsonl, a line of JSON
// about all of them and one about each picture: its file, written from the folder of PREFIX, the
// hash of its bytes, and its sides. Pictures are read from their own files.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/image_batch.h"
#include "data/indexed_dataset.h"
#include "data/indexed_dataset_writer.h"
#include "image/image_processor.h"
#include "image/picture_file.h"

namespace viaduct {

/// What places for pictures hold in all rows.
struct ImagePlaceTokens {
  int64_t id = -1;    // of the token that stands for a part of a picture
  int64_t count = 0;  // of them for each picture
};

class ImageIndexWriter {
 public:
  ImageIndexWriter(const std::filesystem::path& prefix, ImagePlaceTokens tokens);

  /// The pictures of the next row, in the order of their places.
  void add_row(std::span<const PictureFile> pictures);
  /// Pictures that are not the same file with the same bytes.
  int64_t pictures() const { return static_cast<int64_t>(files_.size()); }
  /// Both files of numbers and the lines; nothing is left without it.
  void finish();

 private:
  std::string prefix_;
  ImagePlaceTokens tokens_;
  IndexedDatasetWriter rows_;
  std::vector<PictureFile> files_;
  std::map<std::pair<std::string, uint64_t>, int32_t> numbers_;
};

/// Reads what ImageIndexWriter wrote. Several threads may use one.
class ImageIndex {
 public:
  /// Of the data set PREFIX of so many rows. IoError where files are missing or damaged, or belong
  /// to another data set.
  ImageIndex(const std::string& prefix, int64_t rows);

  const ImagePlaceTokens& tokens() const { return tokens_; }
  /// The number of a row's pictures.
  int64_t count(int64_t row) const { return numbers_->sequence_length(row); }
  /// A row's pictures; paths can be opened.
  std::vector<PictureFile> row(int64_t row) const;

  /// Puts the pictures of a row, as the model takes them, behind those of a batch. IoError with the
  /// path for a file that is missing or has other bytes than when the data set was made, ShapeError
  /// for a batch of other sizes.
  void append(int64_t row, const ImageProcessor& processor, ImageBatch& batch) const;

 private:
  std::string where_;  // PREFIX.images.jsonl
  std::shared_ptr<const IndexedDataset> numbers_;
  std::vector<PictureFile> files_;
  ImagePlaceTokens tokens_;
};

}  // namespace viaduct
