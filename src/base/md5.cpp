#include "base/md5.h"

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace viaduct {
namespace {

constexpr int kShifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

/// The integer part of 2^32 · |sin(i + 1)|.
std::array<uint32_t, 64> sines() {
  std::array<uint32_t, 64> table;
  for (size_t i = 0; i < 64; ++i)
    table[i] = static_cast<uint32_t>(std::fabs(std::sin(static_cast<double>(i + 1))) * 0x1p32);
  return table;
}

void add_block(std::array<uint32_t, 4>& state, const unsigned char* block,
               const std::array<uint32_t, 64>& table) {
  uint32_t words[16];
  std::memcpy(words, block, sizeof words);  // little-endian, as all supported machines
  auto [a, b, c, d] = state;
  for (uint32_t i = 0; i < 64; ++i) {
    uint32_t mixed = 0, word = 0;
    switch (i / 16) {
      case 0:
        mixed = (b & c) | (~b & d), word = i;
        break;
      case 1:
        mixed = (d & b) | (~d & c), word = (5 * i + 1) % 16;
        break;
      case 2:
        mixed = b ^ c ^ d, word = (3 * i + 5) % 16;
        break;
      default:
        mixed = c ^ (b | ~d), word = 7 * i % 16;
    }
    const uint32_t sum = a + mixed + table[i] + words[word];
    a = d, d = c, c = b;
    b += std::rotl(sum, kShifts[i / 16][i % 4]);
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

}  // namespace

std::string md5_hex(std::string_view text) {
  std::string padded(text);
  padded.push_back('\x80');
  padded.resize((padded.size() + 8 + 63) / 64 * 64, '\0');
  const uint64_t bits = static_cast<uint64_t>(text.size()) * 8;
  std::memcpy(padded.data() + padded.size() - 8, &bits, 8);
  const auto table = sines();
  std::array<uint32_t, 4> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  for (size_t at = 0; at < padded.size(); at += 64)
    add_block(state, reinterpret_cast<const unsigned char*>(padded.data()) + at, table);
  std::string hex;
  for (const uint32_t word : state) {
    for (int byte = 0; byte < 4; ++byte) hex += fmt::format("{:02x}", word >> (8 * byte) & 0xff);
  }
  return hex;
}

}  // namespace viaduct
