#include "support/sha256.h"

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace viaduct::test {
namespace {

/// The first 32 bits of the fractional part of `root`.
uint32_t fraction_bits(long double root) {
  return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L);
}

/// The initial state and the round constants: square and cube roots of the first primes.
struct Constants {
  std::array<uint32_t, 8> state{};
  std::array<uint32_t, 64> round{};
  Constants() {
    int found = 0;
    for (int candidate = 2; found < 64; ++candidate) {
      bool prime = true;
      for (int divisor = 2; divisor * divisor <= candidate; ++divisor) {
        prime = prime && candidate % divisor != 0;
      }
      if (!prime) continue;
      const auto value = static_cast<long double>(candidate);
      if (found < 8) state[found] = fraction_bits(std::sqrt(value));
      round[found++] = fraction_bits(std::cbrt(value));
    }
  }
};

void add_block(const uint8_t* block, const Constants& constants, std::array<uint32_t, 8>& state) {
  std::array<uint32_t, 64> w{};
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
           uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + constants.round[i] + w[i];
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<uint32_t, 8> mixed{a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += mixed[i];
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  const Constants constants;
  std::array<uint32_t, 8> state = constants.state;
  std::string padded(bytes);
  padded.push_back('\x80');
  while (padded.size() % 64 != 56) padded.push_back('\0');
  const uint64_t bits = uint64_t{bytes.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded.push_back(static_cast<char>(bits >> shift));
  for (size_t at = 0; at < padded.size(); at += 64) {
    add_block(reinterpret_cast<const uint8_t*>(padded.data()) + at, constants, state);
  }
  std::string hex;
  for (const uint32_t word : state) hex += fmt::format("{:08x}", word);
  return hex;
}

}  // namespace viaduct::test
