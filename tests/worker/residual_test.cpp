// The residual outlives its process, however that ends; and no file but its own is taken for it.
#include "worker/residual_file.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <limits>

#include "tests/temp_directory.hpp"

namespace rubato::worker {
namespace {

constexpr std::uint64_t kCluster = 77;
constexpr std::size_t kParameters = 5000;
constexpr Incarnation kRun = 42;
using Left = Residual::Left;

ResidualFile in(const TempDirectory& directory) {
  return {directory.path(), "pi-3", kCluster, kParameters};
}

// Something that the worker has not sent when its process ends.
void leave(const ResidualFile& file, Incarnation run) {
  auto residual = open_residual(file);
  REQUIRE_MESSAGE(residual.has_value(), residual.error().message);
  residual->bind(run);
  residual->values()[0] = 1;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string refusal(const ResidualFile& file) {
  const auto opened = open_residual(file);
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == ErrorCode::BadInput);
  CHECK(opened.error().message.find('\n') == std::string::npos);
  return opened.error().message;
}

TEST_CASE("a residual begins at zero") {
  const Residual memory(kParameters);
  CHECK(memory.values().size() == kParameters);
  const TempDirectory directory;
  auto file = in(directory);
  file.directory += "/made/when/missing";
  auto mapped = open_residual(file);
  REQUIRE_MESSAGE(mapped.has_value(), mapped.error().message);
  CHECK(mapped->values().size() == kParameters);
  CHECK(std::ranges::all_of(mapped->values(), [](float x) { return x == 0; }));
  CHECK(mapped->bind(kRun) == Left::Nothing);
  CHECK(mapped->bind(kRun) == Left::Nothing);
}

TEST_CASE("a residual survives the SIGKILL of its worker") {
  const TempDirectory directory;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto residual = open_residual(in(directory));
    if (!residual) ::_exit(1);
    residual->bind(kRun);
    for (std::size_t i = 0; i < kParameters; ++i)
      residual->values()[i] = static_cast<float>(i) + 0.5F;
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  auto residual = open_residual(in(directory));
  REQUIRE_MESSAGE(residual.has_value(), residual.error().message);
  CHECK(residual->bind(kRun) == Left::ThisRun);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kParameters; ++i)
    if (residual->values()[i] != static_cast<float>(i) + 0.5F) ++wrong;
  CHECK(wrong == 0);
}

TEST_CASE("a residual is taken for its own worker, model and cluster only") {
  const TempDirectory directory;
  leave(in(directory), kRun);
  auto file = in(directory);
  file.parameters = 6000;
  CHECK(refusal(file).find("pi-3.residual: is for a model of 5000 parameters, this one has 6000; "
                           "delete the file") != std::string::npos);
  file = in(directory);
  file.cluster = 78;
  CHECK(refusal(file).find("belongs to another cluster") != std::string::npos);
  file = in(directory);
  file.worker = "pi-4";
  CHECK(open_residual(file)->bind(kRun) == Left::Nothing);
  for (const char* name : {"", "../pi-3", ".pi-3"}) {
    file.worker = name;
    CHECK(refusal(file).find("cannot name a file") != std::string::npos);
  }
  CHECK(open_residual(in(directory))->bind(kRun) == Left::ThisRun);  // none of that has touched it
}

TEST_CASE("what one run has left never goes into another, in a file as in memory") {
  const TempDirectory directory;
  leave(in(directory), kRun);
  {
    auto next = open_residual(in(directory));
    CHECK(next->bind(kRun + 1) == Left::AnotherRun);
    CHECK(std::ranges::all_of(next->values(), [](float x) { return x == 0; }));
    next->values()[0] = 2;
  }
  CHECK(open_residual(in(directory))->bind(kRun + 1) == Left::ThisRun);
  CHECK(open_residual(in(directory))->bind(kRun) == Left::AnotherRun);  // nor the other way
  CHECK(open_residual(in(directory))->values()[0] == 0);

  Residual memory(kParameters);
  CHECK(memory.bind(kRun) == Left::Nothing);
  memory.values()[7] = 1;
  CHECK(memory.bind(kRun) == Left::ThisRun);
  CHECK(memory.values()[7] == 1);
  CHECK(memory.bind(kRun + 1) == Left::AnotherRun);
  CHECK(memory.values()[7] == 0);
}

TEST_CASE("what was left before the shards went back is dropped, once, in a file as in memory") {
  const TempDirectory directory;
  leave(in(directory), kRun);
  {
    auto next = open_residual(in(directory));
    next->bind(kRun);
    CHECK_FALSE(next->rebase(0));
    CHECK(next->values()[0] == 1);
    CHECK(next->rebase(3));
    CHECK(next->values()[0] == 0);
    next->values()[0] = 2;
  }
  {
    auto next = open_residual(in(directory));
    CHECK(next->bind(kRun) == Left::ThisRun);
    CHECK_FALSE(next->rebase(3));
    CHECK_FALSE(next->rebase(2));  // a shard that hears of it later
    CHECK(next->values()[0] == 2);
    CHECK(next->bind(kRun + 1) == Left::AnotherRun);  // whose shards count from 0 again
    next->values()[0] = 4;
    CHECK(next->rebase(1));
  }

  Residual memory(kParameters);
  CHECK_FALSE(memory.rebase(2));
  memory.values()[7] = 1;
  CHECK_FALSE(memory.rebase(2));
  CHECK(memory.rebase(3));
  CHECK(memory.values()[7] == 0);
}

TEST_CASE("two workers never share a residual") {
  const TempDirectory directory;
  const auto first = open_residual(in(directory));
  REQUIRE(first.has_value());
  CHECK(refusal(in(directory)).find("in use by another worker") != std::string::npos);
}

TEST_CASE("damage is named, and nothing is overwritten") {
  const TempDirectory directory;
  const auto path = directory.path("pi-3.residual");
  { open_residual(in(directory))->values()[7] = 1; }
  const std::string good = contents(path);
  const auto damaged = [&](const std::string& bytes) {
    directory.write("pi-3.residual", bytes);
    std::string why = refusal(in(directory));
    CHECK(contents(path) == bytes);
    return why;
  };
  CHECK(damaged("my diary, and nothing that may be lost").find("not a residual") !=
        std::string::npos);
  CHECK(damaged("x").find("not a residual") != std::string::npos);
  CHECK(damaged(good.substr(0, good.size() - 1)).find("bytes long") != std::string::npos);
  CHECK(damaged(good + "x").find("bytes long") != std::string::npos);
  std::string infinite = good;
  const float bad = std::numeric_limits<float>::infinity();
  std::copy_n(reinterpret_cast<const char*>(&bad), sizeof bad, infinite.end() - sizeof bad);
  CHECK(damaged(infinite).find("NaN or infinity") != std::string::npos);
}

TEST_CASE("a file that was never finished is begun again") {
  const TempDirectory directory;
  directory.write("pi-3.residual", std::string(100, '\0'));
  const auto residual = open_residual(in(directory));
  REQUIRE_MESSAGE(residual.has_value(), residual.error().message);
  CHECK(residual->values().size() == kParameters);
}

TEST_CASE("a state directory that cannot be is an error of the system") {
  auto opened = open_residual({"/dev/null/state", "pi-3", kCluster, kParameters});
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().code == ErrorCode::Io);
  CHECK(opened.error().message == "/dev/null/state/pi-3.residual: Not a directory");
}

}  // namespace
}  // namespace rubato::worker
