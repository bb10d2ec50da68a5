#include "cli/interrupt.hpp"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "base/time.hpp"
#include "cli/run_place.hpp"

namespace rubato::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr Duration kGrace = Duration::from_ms(500);  // to end by itself
constexpr Duration kLook = Duration::from_ms(50);

sem_t interrupts;  // signals that arrived; sem_post is one of the few calls a handler may make
std::atomic<int> first_signal = 0;
std::atomic<int> signals_seen = 0;
std::atomic<int> in_order = 0;  // objects of InOrder
static_assert(std::atomic<int>::is_always_lock_free);

// The signals that are not ignored.
sigset_t watched() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kSignals) {
    struct sigaction now = {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  return signals;
}

void wait_for_interrupt() {
  while (sem_wait(&interrupts) != 0) {
  }
}

// Until a second signal comes, or the command has had its time.
void wait_for_end() {
  Instant until = steady_now() + kGrace;
  while (sem_trywait(&interrupts) != 0) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(kLook.ns));
    const Instant now = steady_now();
    if (in_order > 0) until = now + kGrace;
    if (now >= until) return;
  }
}

}  // namespace

InOrder::InOrder() {
  ++in_order;
}

InOrder::~InOrder() {
  --in_order;
}

void catch_interrupts() {
  sem_init(&interrupts, 0, 0);
  // A handler, and not sigwait: OpenBLAS has started threads before main, with the signals open.
  struct sigaction action = {};
  action.sa_handler = [](int number) {
    int none = 0;
    first_signal.compare_exchange_strong(none, number);
    // The third finds a process that cannot even end at once.
    if (++signals_seen > 2) _exit(exit_interrupted());
    sem_post(&interrupts);
  };
  action.sa_flags = SA_RESTART;
  const sigset_t signals = watched();
  for (const int signal : kSignals)
    if (sigismember(&signals, signal) == 1) sigaction(signal, &action, nullptr);
}

std::stop_token watch_interrupts() {
  std::stop_source source;
  const sigset_t signals = watched();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, source]() mutable {
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    wait_for_interrupt();
    source.request_stop();
    wait_for_end();
    end_interrupted();
  }).detach();
  return source.get_token();
}

int exit_interrupted() {
  const int signal = first_signal;
  return 128 + (signal == 0 ? SIGINT : signal);
}

bool was_terminated() {
  return first_signal == SIGTERM;
}

void end_interrupted() {
  RunPlace::let_go_of_all();
  _exit(exit_interrupted());
}

}  // namespace rubato::cli
