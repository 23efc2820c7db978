#pragma once
// Arrays of integers that hold the order of data: in memory, or mapped from a .npy file (NumPy's
// format 1.0), as in Megatron.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct {

class MappedFile;

enum class IndexType : uint8_t { int16, int32, uint32, int64 };

int64_t index_type_bytes(IndexType type);

/// Shape and type. `columns` 0: one axis of `rows`.
struct IndexShape {
  IndexType type = IndexType::int32;
  int64_t rows = 0, columns = 0;

  int64_t values() const { return columns == 0 ? rows : rows * columns; }
  int64_t bytes() const { return values() * index_type_bytes(type); }
  bool operator==(const IndexShape&) const = default;
};

/// "int32 [10, 2]".
std::string describe(const IndexShape& shape);

/// The header that numpy.save writes before the values of such an array.
std::string npy_header(const IndexShape& shape);
/// Reads it back; `header_bytes` is its length. IoError naming `where` for a malformed header, or
/// one of another type or order.
IndexShape parse_npy_header(std::string_view file, const std::string& where, size_t& header_bytes);
/// The shape in a file, read without mapping it.
IndexShape read_npy_shape(const std::filesystem::path& path);

class IndexArray {
 public:
  IndexArray() = default;
  /// Values in memory, as many bytes as the shape has.
  IndexArray(const IndexShape& shape, std::vector<std::byte> values);
  /// Maps a .npy file. IoError if it is not a .npy file, or its size does not match its header.
  static IndexArray map(const std::filesystem::path& path);

  const IndexShape& shape() const { return shape_; }
  int64_t size() const { return shape_.values(); }
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(data_), static_cast<size_t>(shape_.bytes())};
  }
  /// Value `i` in the order of storage (row by row). Not checked.
  int64_t operator[](int64_t i) const {
    switch (shape_.type) {
      case IndexType::int16:
        return load<int16_t>(i);
      case IndexType::int32:
        return load<int32_t>(i);
      case IndexType::uint32:
        return load<uint32_t>(i);
      default:
        return load<int64_t>(i);
    }
  }
  /// IoError if bytes of the mapped file could not be read.
  void check_read() const;
  bool mapped() const { return file_ != nullptr; }

 private:
  template <class T>
  int64_t load(int64_t i) const {
    return static_cast<int64_t>(reinterpret_cast<const T*>(data_)[i]);
  }

  IndexShape shape_;
  std::shared_ptr<const std::vector<std::byte>> memory_;
  std::shared_ptr<const MappedFile> file_;
  const std::byte* data_ = nullptr;
};

/// Receives arrays while they are built: in sequence, each from its first value to its last.
class IndexSink {
 public:
  virtual ~IndexSink() = default;
  /// The next array; the one before it must be complete.
  virtual void begin(const IndexShape& shape) = 0;
  virtual void write(const void* values, size_t bytes) = 0;
};

}  // namespace viaduct
