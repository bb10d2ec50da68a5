// Limits of the system (ulimit) that are told before a command needs what they forbid.
#include "base/limits.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

using namespace rubato;

namespace {

// What `f` returns in a process of its own, with that limit.
std::string in_child(int resource, rlim_t most, const std::function<Result<void>()>& f) {
  int ends[2] = {-1, -1};
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit limit{most, most};
    const bool set = ::setrlimit(resource, &limit) == 0;
    const auto done = f();
    const std::string text = !set ? "no limit" : done ? "well" : done.error().message;
    (void)!::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text(1000, '\0');
  const auto got = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(got >= 0);
  text.resize(static_cast<std::size_t>(got));
  return text;
}

}  // namespace

TEST_CASE("limits: descriptors for a node and its connections, or one line") {
  CHECK(in_child(RLIMIT_NOFILE, 100, [] { return check_descriptors(52); }) == "well");
  const std::string few = in_child(RLIMIT_NOFILE, 99, [] { return check_descriptors(52); });
  CHECK(
      few.starts_with("this process may have 99 open files, and needs 100; run `ulimit -n 1024`"));
  CHECK(few.find('\n') == std::string::npos);
}

// Sanitizers map memory for each thread, and end a process that has no address space for it.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// No thread starts without room for its stack. ulimit -u would show the same, but it does not bind
// the superuser.
TEST_CASE("limits: threads that cannot be started are one line") {
  CHECK(check_threads(8).has_value());
  // More than the stacks that the C library keeps of threads that have ended.
  const std::string few = in_child(RLIMIT_AS, 1 << 20, [] { return check_threads(200); });
  CHECK(few.starts_with("the system lets this command start "));
  CHECK(few.find(" of the 200 threads that it needs;") != std::string::npos);
  CHECK(few.find('\n') == std::string::npos);
}
#endif
