// Which pictures belong to the rows of a data set, written and read again.

#include "image/image_index.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/output_file.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ImageIndexTest : public testing::Test {
 protected:
  ImageIndexTest() {
    std::filesystem::create_directories(folder_ / "pictures");
    for (const char* name : {"noise.png", "rgb.jpg"})
      write_file_atomically(folder_ / "pictures" / name,
                            read_file(test::test_data("images") / name));
  }
  PictureFile picture(const char* name) const {
    return read_picture_file(folder_ / "pictures" / name);
  }
  std::string prefix() const { return (folder_ / "chats").string(); }
  void write() {
    ImageIndexWriter writer(prefix(), {7, 4});
    writer.add_row(std::vector{picture("noise.png"), picture("rgb.jpg"), picture("noise.png")});
    writer.add_row({});
    writer.add_row(std::vector{picture("rgb.jpg")});
    EXPECT_EQ(writer.pictures(), 2);
    writer.finish();
  }
  static ImageProcessor processor() {
    return ImageProcessor::of_json(json::parse(R"({"image_processor_type": "SiglipImageProcessor",
                        "size": {"height": 4, "width": 4}})"),
                                   "x");
  }

  test::TemporaryFolder folder_;
};

TEST_F(ImageIndexTest, IsReadAsItWasWritten) {
  write();
  const ImageIndex index(prefix(), 3);
  EXPECT_EQ(index.tokens().id, 7);
  EXPECT_EQ(index.tokens().count, 4);
  EXPECT_EQ(index.count(0), 3);
  EXPECT_EQ(index.count(1), 0);
  const auto row = index.row(0);
  ASSERT_EQ(row.size(), 3u);
  EXPECT_EQ(row[1].hash, picture("rgb.jpg").hash);
  EXPECT_EQ(row[1].height, 19);
  EXPECT_EQ(row[1].width, 21);
  EXPECT_EQ(row[0].path, row[2].path);
}

TEST_F(ImageIndexTest, PixelsOfRowsFollowEachOther) {
  write();
  const ImageIndex index(prefix(), 3);
  ImageBatch batch;
  for (int64_t row = 0; row < 3; ++row) index.append(row, processor(), batch);
  EXPECT_EQ(batch.count, 4);
  EXPECT_EQ(batch.channels, 3);
  EXPECT_EQ(batch.height, 4);
  ASSERT_EQ(batch.pixels.size(), 4u * 48);
  ImageBatch last;
  index.append(2, processor(), last);
  EXPECT_TRUE(std::equal(last.pixels.begin(), last.pixels.end(), batch.pixels.begin() + 3 * 48));
  EXPECT_TRUE(std::equal(last.pixels.begin(), last.pixels.end(), batch.pixels.begin() + 48));
  EXPECT_FALSE(std::equal(last.pixels.begin(), last.pixels.end(), batch.pixels.begin()));
}

TEST_F(ImageIndexTest, MovesWithItsPictures) {
  write();
  const std::string text = read_file(prefix() + ".images.jsonl");
  EXPECT_THAT(text, HasSubstr(R"("file":"pictures/noise.png")"));
  std::filesystem::create_directories(folder_ / "other");
  for (const char* name :
       {"pictures", "chats.images.bin", "chats.images.idx", "chats.images.jsonl"})
    std::filesystem::rename(folder_ / name, folder_ / "other" / name);
  ImageBatch batch;
  ImageIndex((folder_ / "other" / "chats").string(), 3).append(0, processor(), batch);
  EXPECT_EQ(batch.count, 3);
}

TEST_F(ImageIndexTest, APictureThatChangedIsRefused) {
  write();
  write_file_atomically(folder_ / "pictures" / "rgb.jpg",
                        read_file(test::test_data("images/grey.jpg")));
  const ImageIndex index(prefix(), 3);
  ImageBatch batch;
  EXPECT_THAT([&] { index.append(2, processor(), batch); },
              ThrowsMessage<IoError>(HasSubstr("the picture is another one")));
  std::filesystem::remove(folder_ / "pictures" / "rgb.jpg");
  EXPECT_THAT([&] { index.append(2, processor(), batch); },
              ThrowsMessage<IoError>(HasSubstr("rgb.jpg")));
}

TEST_F(ImageIndexTest, DamageAndOtherDataAreRefused) {
  write();
  EXPECT_THAT([&] { ImageIndex(prefix(), 2); },
              ThrowsMessage<IoError>(HasSubstr("the pictures belong to other data")));
  const std::string file = prefix() + ".images.jsonl", text = read_file(file);
  write_file_atomically(file, text.substr(0, text.find('\n', text.find('\n') + 1) + 1));
  EXPECT_THAT([&] { ImageIndex(prefix(), 3); },
              ThrowsMessage<IoError>(HasSubstr("1 picture, expected 2: the file is cut off")));
  write_file_atomically(file, "");
  EXPECT_THROW(ImageIndex(prefix(), 3), IoError);
  write_file_atomically(file, "[3]\n");
  EXPECT_THROW(ImageIndex(prefix(), 3), IoError);
}

}  // namespace
}  // namespace viaduct
