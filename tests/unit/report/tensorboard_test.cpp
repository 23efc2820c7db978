#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "report/tensorboard_events.h"
#include "report/tensorboard_writer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using namespace tensorboard;

// An independent reader: parses the bytes by the published formats.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::string_view take(size_t count) {
    if (count > bytes_.size()) throw std::runtime_error("truncated");
    const auto taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }

 private:
  std::string_view bytes_;
};

/// All fields of a message, in order: number → raw value (varints and fixed-size fields as numbers,
/// the rest as bytes).
struct Field {
  uint32_t number;
  uint64_t value = 0;
  std::string_view bytes;
};

std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  for (Bytes in(message); !in.empty();) {
    const uint64_t key = in.varint();
    Field field{static_cast<uint32_t>(key >> 3)};
    switch (key & 7) {
      case 0:
        field.value = in.varint();
        break;
      case 1:
        field.value = in.fixed<uint64_t>();
        break;
      case 2:
        field.bytes = in.take(in.varint());
        break;
      case 5:
        field.value = in.fixed<uint32_t>();
        break;
      default:
        throw std::runtime_error("wire type");
    }
    fields.push_back(field);
  }
  return fields;
}

struct Event {
  double wall_seconds = 0;
  int64_t step = 0;
  std::string version;
  std::optional<uint64_t> session_status;
  std::map<std::string, float> scalars;
};

Event event_of(std::string_view message) {
  Event event;
  for (const Field& field : fields_of(message)) {
    if (field.number == 1) event.wall_seconds = std::bit_cast<double>(field.value);
    if (field.number == 2) event.step = static_cast<int64_t>(field.value);
    if (field.number == 3) event.version = field.bytes;
    if (field.number == 7) event.session_status = fields_of(field.bytes).at(0).value;
    if (field.number != 5) continue;
    for (const Field& value : fields_of(field.bytes)) {
      const auto parts = fields_of(value.bytes);
      event.scalars[std::string(parts.at(0).bytes)] =
          std::bit_cast<float>(static_cast<uint32_t>(parts.at(1).value));
    }
  }
  return event;
}

/// CRC-32C bit by bit, with TFRecord's mask.
uint32_t slow_masked_crc(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1u)));
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::vector<Event> events_of(const std::string& file) {
  std::vector<Event> events;
  for (Bytes in(file); !in.empty();) {
    const auto length_bytes = in.take(8);
    uint64_t length;
    std::memcpy(&length, length_bytes.data(), 8);
    EXPECT_EQ(in.fixed<uint32_t>(), slow_masked_crc(length_bytes));
    const auto data = in.take(length);
    EXPECT_EQ(in.fixed<uint32_t>(), slow_masked_crc(data));
    events.push_back(event_of(data));
  }
  return events;
}

// RFC 3720, appendix B.4.
TEST(TensorBoard, CrcKnownAnswers) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorBoard, WritesScalarsThatReadBack) {
  test::TemporaryFolder folder;
  std::filesystem::path path;
  {
    TensorBoardWriter writer(folder / "runs" / "a");
    path = writer.path();
    const Scalar first[] = {{"train/loss", 3.5}, {"speed/mfu", 0.25}};
    writer.write(1, first);
    const Scalar second[] = {{"train/loss", -1e30}};
    writer.write(int64_t{1} << 40, second);
    // Visible while the writer is still open.
    EXPECT_EQ(events_of(read_file(path)).size(), 3u);
  }
  EXPECT_TRUE(path.filename().string().starts_with("events.out.tfevents."));
  const auto events = events_of(read_file(path));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_GT(events[0].wall_seconds, 1.7e9);
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[1].scalars,
            (std::map<std::string, float>{{"train/loss", 3.5f}, {"speed/mfu", 0.25f}}));
  EXPECT_EQ(events[2].step, int64_t{1} << 40);
  EXPECT_EQ(events[2].scalars.at("train/loss"), -1e30f);
}

TEST(TensorBoard, AResumedRunStartsAFileThatReplacesLaterSteps) {
  test::TemporaryFolder folder;
  TensorBoardWriter first(folder.path()), resumed(folder.path(), 11);
  EXPECT_NE(first.path(), resumed.path());
  const auto events = events_of(read_file(resumed.path()));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].step, 11);
  EXPECT_EQ(events[1].session_status, 1u);  // START
}

TEST(TensorBoard, SaysWhereItCannotWrite) {
  test::TemporaryFolder folder;
  write_file_atomically(folder / "file", "");
  EXPECT_THROW(TensorBoardWriter(folder / "file" / "below"), IoError);
}

}  // namespace
}  // namespace viaduct
