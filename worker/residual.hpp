// worker/residual.hpp - what compression has not sent yet of a worker's updates (error feedback,
// proto/compression.hpp): in memory, or in a file that is mapped, so that not even SIGKILL loses
// it. It belongs to one run: another one's is dropped, not sent to parameters that it never stood
// on, nor is what was left before the shards went back to kept parameters. docs/compression.md
// tells the file's form and what a crash can cost. Shapes: one float32 for each parameter of the
// model. Threads: one owner. Errors: BadInput or Io, one line that names the file and the remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/ids.hpp"
#include "base/result.hpp"

namespace rubato::worker {

class Residual {
 public:
  // All zeros, in memory: gone with the process.
  explicit Residual(std::size_t parameters);
  Residual(Residual&&) noexcept;
  Residual& operator=(Residual&&) noexcept;
  ~Residual();

  struct File {
    std::string directory;  // made when missing
    std::string worker;     // its name in the cluster; the file is <worker>.residual
    std::uint64_t cluster = 0;
    std::size_t parameters = 0;
  };
  // Takes over the file of an earlier life of this worker, or makes one, all zeros. The file is
  // locked: two processes never share it.
  [[nodiscard]] static Result<Residual> open(const File& file);

  // Who left what is in it, if anything is.
  enum class Left { Nothing, ThisRun, AnotherRun };
  // It is this run's from now on: zeros, if it was another's or nobody's. Returns: what it held.
  Left bind(Incarnation run);
  // The shards of this run have gone back so often (proto::Parameters::restores): zeros, if it was
  // left before they last did. Returns: true when that dropped anything.
  bool rebase(std::uint32_t restores);

  // Lifetime: of the Residual, also after it was moved.
  std::span<float> values() const;

 private:
  struct Storage;

  [[nodiscard]] static Result<std::string> path_of(const File& file);
  explicit Residual(std::unique_ptr<Storage> storage);

  std::unique_ptr<Storage> storage_;
};

}  // namespace rubato::worker
