#pragma once
// Makes new inputs from old ones, for the fuzz targets: the same seed gives the same inputs on
// every machine.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace viaduct::fuzz {

class Mutator {
 public:
  /// Makes inputs from `corpus` (at least one entry; entries may be empty), never longer than
  /// `max_bytes`.
  Mutator(std::vector<std::string> corpus, size_t max_bytes);

  /// The input number `iteration` of `seed`: one to eight changes to an entry of the corpus.
  /// Depends only on the corpus and these numbers.
  std::string input(uint64_t seed, uint64_t iteration);

 private:
  // One change: bits, bytes, runs of bytes, interesting integers in binary and decimal, truncation,
  // splices of two entries.
  void change(std::string& text);
  void splice(std::string& text);
  void write_integer(std::string& text);
  size_t below(size_t bound);  // uniform in [0, bound); 0 for bound 0

  std::vector<std::string> corpus_;
  size_t max_bytes_;
  std::mt19937_64 random_;
};

}  // namespace viaduct::fuzz
