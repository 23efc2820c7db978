// GgufHeadWriter: the head of a GGUF file as bytes.

#include <limits>

#include "base/error.h"
#include "checkpoint/gguf_metadata.h"
#include "checkpoint/gguf_values.h"

namespace viaduct {
namespace {

using namespace gguf_values;

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_text(std::string& to, std::string_view text) {
  append<uint64_t>(to, text.size());
  to += text;
}

template <class T>
void append_array(std::string& to, uint32_t kind, const std::vector<T>& values) {
  append<uint32_t>(to, kind);
  append<uint64_t>(to, values.size());
  for (const T& value : values) append(to, value);
}

}  // namespace

void GgufHeadWriter::key(const std::string& name, uint32_t type) {
  append_text(keys_, name);
  append(keys_, type);
  ++count_;
}

void GgufHeadWriter::add_u32(const std::string& name, int64_t value) {
  VIADUCT_CHECK(ConfigError, value >= 0 && value <= std::numeric_limits<uint32_t>::max(),
                "GGUF: {} is {}, but a 32-bit field holds 0 to 2^32 - 1", name, value);
  key(name, u32);
  append(keys_, static_cast<uint32_t>(value));
}

void GgufHeadWriter::add_f32(const std::string& name, double value) {
  key(name, f32);
  append(keys_, static_cast<float>(value));
}

void GgufHeadWriter::add_flag(const std::string& name, bool value) {
  key(name, flag);
  append(keys_, static_cast<uint8_t>(value));
}

void GgufHeadWriter::add_text(const std::string& name, std::string_view value) {
  key(name, text);
  append_text(keys_, value);
}

void GgufHeadWriter::add_texts(const std::string& name, const std::vector<std::string>& values) {
  key(name, array);
  append<uint32_t>(keys_, text);
  append<uint64_t>(keys_, values.size());
  for (const std::string& value : values) append_text(keys_, value);
}

void GgufHeadWriter::add_i32s(const std::string& name, const std::vector<int32_t>& values) {
  key(name, array);
  append_array(keys_, i32, values);
}

void GgufHeadWriter::add_f32s(const std::string& name, const std::vector<float>& values) {
  key(name, array);
  append_array(keys_, f32, values);
}

void GgufHeadWriter::add_tensor(GgufTensor tensor) {
  tensor.offset = data_bytes_;
  data_bytes_ = aligned_for_gguf(data_bytes_ + tensor.bytes());
  tensors_.push_back(std::move(tensor));
}

std::string GgufHeadWriter::head() const {
  std::string head(kMagic);
  append(head, kVersion);
  append<uint64_t>(head, tensors_.size());
  append(head, count_);
  head += keys_;
  for (const GgufTensor& tensor : tensors_) {
    append_text(head, tensor.name);
    append<uint32_t>(head, static_cast<uint32_t>(tensor.shape.rank()));
    for (int i = tensor.shape.rank(); i-- > 0;)
      append<uint64_t>(head, static_cast<uint64_t>(tensor.shape[i]));
    append(head, static_cast<uint32_t>(tensor.type));
    append<uint64_t>(head, static_cast<uint64_t>(tensor.offset));
  }
  head.resize(static_cast<size_t>(aligned_for_gguf(static_cast<int64_t>(head.size()))), '\0');
  return head;
}

}  // namespace viaduct
