#include "ops/cuda/library_call.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace viaduct::cuda {
namespace {

/// The first byte of a note says what it is of.
template <class Kind>
constexpr char kMark = std::is_same_v<Kind, ProductKind> ? 'p' : 'a';

template <class Kind>
std::string bytes_of(const Kind& kind) {
  static_assert(std::is_trivially_copyable_v<Kind>);
  std::string note(1 + sizeof kind, kMark<Kind>);
  std::memcpy(note.data() + 1, &kind, sizeof kind);
  return note;
}

template <class Kind>
bool is_note_of(std::string_view note) {
  return note.size() == 1 + sizeof(Kind) && note[0] == kMark<Kind>;
}

template <class Kind>
Kind kind_of(std::string_view note) {
  Kind kind;
  std::memcpy(&kind, note.data() + 1, sizeof kind);
  return kind;
}

}  // namespace

std::string note_of(const ProductKind& kind) {
  return bytes_of(kind);
}

std::string note_of(const LibraryAttention& kind) {
  return bytes_of(kind);
}

std::variant<ProductKind, LibraryAttention> noted_kind(std::string_view note) {
  if (is_note_of<ProductKind>(note)) return kind_of<ProductKind>(note);
  VIADUCT_CHECK(DeviceError, is_note_of<LibraryAttention>(note),
                "a call of a library: expected a note of a product or of attention, found {} bytes",
                note.size());
  return kind_of<LibraryAttention>(note);
}

}  // namespace viaduct::cuda
