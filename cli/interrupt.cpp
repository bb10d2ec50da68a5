#include "cli/interrupt.hpp"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace rubato::cli {
namespace {

sem_t interrupts;  // signals that arrived; sem_post is one of the few calls a handler may make
std::atomic<int> first_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void wait_for_interrupt() {
  while (sem_wait(&interrupts) != 0) {
  }
}

}  // namespace

std::stop_token watch_interrupts() {
  std::stop_source source;
  sem_init(&interrupts, 0, 0);
  // A handler, and not sigwait: OpenBLAS has started threads before main, with both signals open.
  struct sigaction action = {};
  action.sa_handler = [](int number) {
    int none = 0;
    first_signal.compare_exchange_strong(none, number);
    sem_post(&interrupts);
  };
  action.sa_flags = SA_RESTART;
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaction(signal, &action, nullptr);
    sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, source]() mutable {
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    wait_for_interrupt();
    source.request_stop();
    wait_for_interrupt();
    end_interrupted();
  }).detach();
  return source.get_token();
}

bool was_terminated() {
  return first_signal == SIGTERM;
}

void end_interrupted() {
  _exit(kExitInterrupted);
}

}  // namespace rubato::cli
