#pragma once
// Non-cryptographic hashes with fixed definitions: checksums of stored bytes and keys of random
// streams.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace viaduct {

/// XXH3 64-bit hash of the bytes (stable across versions and machines).
uint64_t hash64(std::string_view bytes);

/// Incremental form of `hash64` for data that arrives in pieces.
class Hasher64 {
 public:
  Hasher64();
  ~Hasher64();
  Hasher64(const Hasher64&) = delete;
  Hasher64& operator=(const Hasher64&) = delete;
  void update(const void* data, size_t bytes);
  uint64_t digest() const;

 private:
  void* state_;
};

}  // namespace viaduct
