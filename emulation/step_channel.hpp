// emulation/step_channel.hpp - between the virtual cluster and the process of a worker whose
// training loop is the user's: records of one size over a socket pair, and memory of both that
// holds one vector of parameters. The cluster says what to do, the process does it and answers, so
// one of them waits at any time. The process describes its model first. Errors: Gone when the other
// end is no more; Timeout; Corrupt for what no end of ours says. Threads: one owner for each end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/time.hpp"

namespace rubato::emulation {

// The variable of the environment in which a process finds the descriptor of its end.
inline constexpr const char* kStepChannelVariable = "RUBATO_VIRTUAL";

struct StepRecord {
  enum class Kind : std::uint32_t {
    Table,  // process: the memory is there, and behind the parameters the text of the model
    Train,  // cluster: batch, rate, seconds and takes
    // cluster: parameters <- U. The base was in that memory. `trains_on`: a base of its own <- W
    Commit,
    Take,      // cluster: parameters <- W; then as Commit
    Keep,      // cluster: a base of its own <- the base; after a commit, <- W
    Load,      // cluster: W <- parameters - U, where it has a base of its own
    Restart,   // cluster: W <- parameters
    Evaluate,  // cluster: measure the parameters
    Over,      // cluster: the run has ended
    Done,      // process: the last order, with what came of it
    Left,      // process: its loop has ended; not `finite`: by an exception
  };
  Kind kind = Kind::Done;
  std::uint32_t batch = 0;
  std::uint32_t finite = 1;     // Done of Commit and Take
  std::uint32_t trains_on = 0;  // Commit, Take: before the next Load
  double rate = 1;
  double loss = 0;      // Done of Train: the sum; of Evaluate: the mean
  double accuracy = 0;  // Done of Evaluate
  std::uint64_t samples = 0;
  std::uint64_t parameters = 0;  // Table
  std::uint64_t text_bytes = 0;  // Table
  double seconds = 0;            // Train: virtual time since training started
  double takes = 0;              // Train: what the step lasts
};
static_assert(sizeof(StepRecord) == 80);

// Memory that both have mapped. Move only.
class SharedVector {
 public:
  SharedVector() = default;
  // A new one; Io.
  [[nodiscard]] static Result<SharedVector> make(std::uint64_t floats, std::string_view text);
  // That of the other end. `descriptor` is taken over. Corrupt: it is smaller than it should be.
  [[nodiscard]] static Result<SharedVector> map(int descriptor, std::uint64_t floats,
                                                std::uint64_t text_bytes);
  ~SharedVector();
  SharedVector(SharedVector&& other) noexcept { *this = std::move(other); }
  SharedVector& operator=(SharedVector&& other) noexcept;

  int descriptor() const { return descriptor_; }
  std::span<float> floats() const { return {static_cast<float*>(memory_), floats_}; }
  std::string text() const;

 private:
  int descriptor_ = -1;
  void* memory_ = nullptr;
  std::size_t floats_ = 0;
  std::size_t text_bytes_ = 0;
};

// Sends one message over a socket. `pass`: descriptors that go with it, kPassedMax at most.
// Returns: whether all of it was taken.
inline constexpr std::size_t kPassedMax = 2;
[[nodiscard]] bool send_with(int socket, std::span<const std::byte> bytes,
                             std::span<const int> pass);

class StepChannel {
 public:
  StepChannel() = default;
  // `descriptor` is taken over.
  explicit StepChannel(int descriptor) : descriptor_(descriptor) {}
  // Both ends; the second one is for another process, and closed by the caller. Io.
  [[nodiscard]] static Result<std::pair<StepChannel, int>> make();
  ~StepChannel();
  StepChannel(StepChannel&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  StepChannel& operator=(StepChannel&& other) noexcept;

  int descriptor() const { return descriptor_; }
  // `pass`: a descriptor that goes with it; -1: none.
  [[nodiscard]] Result<void> send(const StepRecord& record, int pass = -1) const;
  // Nothing: none came within `timeout`. `passed`: a descriptor that came with it, or -1.
  [[nodiscard]] Result<std::optional<StepRecord>> receive(Duration timeout,
                                                          int* passed = nullptr) const;
  void close();

 private:
  int descriptor_ = -1;
};

}  // namespace rubato::emulation
