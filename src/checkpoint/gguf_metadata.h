#pragma once
// The head of a GGUF file (llama.cpp's container; ggml/docs/gguf.md, versions 2 and 3): keys with
// values, and the tensors' names, types, sizes and places.
//
//   "GGUF", u32 version, u64 tensors, u64 keys, keys, tensors, padding, data; all little-endian

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/gguf_types.h"
#include "tensor/shape.h"

namespace viaduct {

/// Integers of all widths are int64_t, flags in arrays too.
using GgufValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  GgufTensorType type = GgufTensorType::f32;
  Shape shape;         // outermost first, as everywhere else; GGUF stores the reverse
  int64_t offset = 0;  // from the start of the data

  int64_t bytes() const { return gguf_bytes(type, shape.elements()); }
};

/// Keys with values; readers say what they expect.
class GgufKeys {
 public:
  explicit GgufKeys(std::string where) : where_(std::move(where)) {}

  bool has(const std::string& key) const { return values_.contains(key); }
  /// False if the key is there already.
  bool add(const std::string& key, GgufValue value);
  /// The value, or `fallback` where the key is absent; without fallback an absent key is an
  /// IoError, as is a value of another type.
  int64_t integer(const std::string& key, std::optional<int64_t> fallback = {}) const;
  /// Stored as FP32: the decimal number of fewest digits that FP32 rounds to it.
  double number(const std::string& key, std::optional<double> fallback = {}) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string text(const std::string& key, std::optional<std::string> fallback = {}) const;
  /// Empty where absent.
  const std::vector<std::string>& texts(const std::string& key) const;
  const std::vector<int64_t>& integers(const std::string& key) const;
  const std::vector<double>& numbers(const std::string& key) const;

  const std::string& where() const { return where_; }

 private:
  template <class T>
  const T* find(const std::string& key, const char* expected) const;

  std::string where_;
  std::map<std::string, GgufValue> values_;
};

struct GgufHead {
  GgufKeys keys;
  std::vector<GgufTensor> tensors;  // in the file's order
  int64_t data_begin = 0;           // bytes from the start of the file

  explicit GgufHead(std::string where) : keys(std::move(where)) {}
};

enum class GgufContent { whole, head };

/// Reads and validates the head of `file`, the whole content of a GGUF file, or only its head.
/// IoError that starts with `where` unless every length and offset is inside the file, tensors do
/// not overlap, and each name occurs once. A type of elements that is not read is an IoError that
/// names it.
GgufHead parse_gguf(std::string_view file, const std::string& where,
                    GgufContent content = GgufContent::whole);

/// Collects the head of a file to write, in the order of the calls.
class GgufHeadWriter {
 public:
  void add_u32(const std::string& key, int64_t value);
  void add_f32(const std::string& key, double value);
  void add_flag(const std::string& key, bool value);
  void add_text(const std::string& key, std::string_view value);
  void add_texts(const std::string& key, const std::vector<std::string>& values);
  void add_i32s(const std::string& key, const std::vector<int32_t>& values);
  void add_f32s(const std::string& key, const std::vector<float>& values);
  /// Sets the tensor's offset: after those added before, at a multiple of the alignment.
  void add_tensor(GgufTensor tensor);

  /// The bytes before the data, padded.
  std::string head() const;
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

 private:
  void key(const std::string& name, uint32_t type);

  std::string keys_;
  uint64_t count_ = 0;
  std::vector<GgufTensor> tensors_;
  int64_t data_bytes_ = 0;
};

/// The key of a second token that ends texts: the end of a turn.
inline constexpr const char* kGgufEndOfTurn = "tokenizer.ggml.eot_token_id";

/// Tensors and data start at multiples of this many bytes.
inline constexpr int64_t kGgufAlignment = 32;
int64_t aligned_for_gguf(int64_t bytes, int64_t alignment = kGgufAlignment);

}  // namespace viaduct
