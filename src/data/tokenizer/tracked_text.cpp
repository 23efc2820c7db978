#include "data/tokenizer/tracked_text.h"

#include <algorithm>

#include "data/tokenizer/unicode.h"

namespace viaduct {

TrackedText::TrackedText(std::string_view original, size_t at) : text(original), begin(at) {
  places.reserve(text.size());
  for (size_t byte = 0; byte < text.size();) {
    const size_t bytes = first_code_point(original.substr(byte)).bytes;
    places.insert(places.end(), bytes, {begin + byte, begin + byte + bytes});
    byte += bytes;
  }
}

void TrackedText::append(std::string_view more, TextPlace place) {
  text += more;
  places.insert(places.end(), more.size(), place);
}

void TrackedText::append(const TrackedView& more) {
  text += more.text;
  places.insert(places.end(), more.places, more.places + more.text.size());
}

void TrackedText::change(std::span<const CharacterChange> changes) {
  TrackedText made;
  made.begin = begin;
  size_t taken = 0;  // bytes of the text before
  const auto take_character = [&] {
    if (taken < text.size()) taken += first_code_point(std::string_view(text).substr(taken)).bytes;
  };
  std::string letter;
  for (const CharacterChange& next : changes) {
    TextPlace place{begin, begin};
    if (next.change > 0) {
      if (taken > 0) place = places[taken - 1];
    } else if (!places.empty()) {
      place = places[std::min(taken, places.size() - 1)];
    }
    for (int i = next.change; i <= 0; ++i) take_character();
    letter.clear();
    append_utf8(letter, next.value);
    made.append(letter, place);
  }
  *this = std::move(made);
}

}  // namespace viaduct
