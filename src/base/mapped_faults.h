#pragma once
// What happens when the bytes of a mapped file are gone (the file was cut short, the disk gave an
// error): the kernel sends SIGBUS to the thread that reads them, which would end the process with
// no word. Instead the handler here marks the mapping, puts zeros in place of what is missing and
// lets the thread go on; whoever reads a mapped file asks MappedFile::check afterwards, and gets an
// IoError on its own thread, like for any other failed read.
//
// A handler gets no argument of its own, so the mappings are global: slots of lock-free atomic
// numbers in mapped_faults.cpp (see "No mutable globals" in docs/architecture.md). They mean
// nothing while no MappedFaults lives.

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace viaduct {

/// Installs the handler for its lifetime, then restores what was installed before. The application
/// makes one, in front of all that maps files. A bus error outside of mapped files ends the process
/// as it would without.
class MappedFaults {
 public:
  MappedFaults();
  ~MappedFaults();
  MappedFaults(const MappedFaults&) = delete;
  MappedFaults& operator=(const MappedFaults&) = delete;

 private:
  struct sigaction previous_;
};

/// A mapping that the handler knows. At most 65,536 at a time; those beyond it does not know.
class MappingSlot {
 public:
  MappingSlot() = default;
  MappingSlot(const void* address, size_t bytes, const std::string& path);
  ~MappingSlot();
  MappingSlot(MappingSlot&& other) noexcept;
  MappingSlot& operator=(MappingSlot&& other) noexcept;

  /// Offset of the first byte that a thread could not read, −1 while there is none.
  int64_t fault() const noexcept;

 private:
  int index_ = -1;
};

/// "PATH: byte OFFSET could not be read" for a mapping that failed at any time since the program
/// began, "" if none did. So that a reader that forgot to ask does not go unnoticed.
std::string any_mapped_fault();

}  // namespace viaduct
