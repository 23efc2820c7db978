#pragma once
// How byte-level vocabularies spell bytes: each byte is one printable character (GPT-2's
// `bytes_to_unicode`): printable Latin-1 stands for itself, the other 68 bytes follow from U+0100
// on.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct {

/// The character that spells `byte`.
char32_t byte_character(uint8_t byte);

/// `bytes` spelled in the alphabet (UTF-8).
std::string spell_bytes(std::string_view bytes);

/// The bytes that `spelled` stands for; nothing if it has a character outside the alphabet.
/// `spelled` is well-formed UTF-8.
std::optional<std::string> unspell_bytes(std::string_view spelled);

}  // namespace viaduct
