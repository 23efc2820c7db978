#pragma once
// Handling of bytes of a mapped file that are gone (the file was truncated, the disk reported an
// error). The kernel sends SIGBUS to the thread that reads them, which would end the process
// without a message. The handler here instead marks the mapping, maps zeros in place of the missing
// bytes and lets the thread continue; the reader of a mapped file calls MappedFile::check
// afterwards, and gets an IoError on its own thread, as for any other failed read.
//
// A signal handler takes no argument of its own, so the mappings are global: slots of lock-free
// atomic numbers in mapped_faults.cpp (see "No mutable globals" in docs/architecture.md). They are
// meaningless while no MappedFaults lives.

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace viaduct {

/// Installs the handler for its lifetime, then restores the previous one. The application creates
/// one before it maps any file. A bus error outside of mapped files ends the process as it would
/// without it.
class MappedFaults {
 public:
  MappedFaults();
  ~MappedFaults();
  MappedFaults(const MappedFaults&) = delete;
  MappedFaults& operator=(const MappedFaults&) = delete;

 private:
  struct sigaction previous_;
};

/// A mapping protected by the handler. At most 65,536 at a time; further mappings are unprotected.
class MappingSlot {
 public:
  MappingSlot() = default;
  MappingSlot(const void* address, size_t bytes, const std::string& path);
  ~MappingSlot();
  MappingSlot(MappingSlot&& other) noexcept;
  MappingSlot& operator=(MappingSlot&& other) noexcept;

  /// Offset of the first byte that a thread could not read, −1 if there is none.
  int64_t fault() const noexcept;

 private:
  int index_ = -1;
};

/// "PATH: byte OFFSET could not be read" for a mapping that failed at any time since the program
/// started, "" if none did. It reports faults whose reader did not call `check`.
std::string any_mapped_fault();

}  // namespace viaduct
