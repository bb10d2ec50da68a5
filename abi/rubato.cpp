#include "abi/rubato.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/memory.hpp"
#include "nodes/loop_worker.hpp"

using rubato::Error;
using rubato::ErrorCode;
using rubato::Result;
using rubato::cluster::WorkerClient;

// Between rubato_open() and rubato_close(). Only the process that opened it may use what is within.
struct rubato_worker {
  pid_t owner = ::getpid();
  std::atomic_flag busy;  // a thread is within a call
  std::string error;      // of the last call
  rubato::LogQueue log;
  std::unique_ptr<rubato::nodes::LoopWorker> worker;
};

namespace {

thread_local std::string error_here;  // of calls without a worker

constexpr const char* kBusy = "another thread is within a call of this worker";
constexpr const char* kForked = "the worker belongs to the process that opened it";
// In the process of somebody else: commits take as long as with what a process of ours keeps.
constexpr std::size_t kFreedKeptOfLoop = 3 << 20;

int code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::BadInput:
      return RUBATO_BAD_INPUT;
    case ErrorCode::Io:
    case ErrorCode::Corrupt:
      return RUBATO_IO;
    case ErrorCode::Refused:
      return RUBATO_REFUSED;
    case ErrorCode::Timeout:
      return RUBATO_TIMEOUT;
    case ErrorCode::Gone:
    case ErrorCode::Stopped:
    case ErrorCode::Missed:
      return RUBATO_GONE;
    case ErrorCode::Unsupported:
      return RUBATO_UNSUPPORTED;
  }
  return RUBATO_BUG;
}

int note(std::string& place, const Error& error) {
  place = error.message;
  return code_of(error.code);
}

// Calls f, whose exceptions become codes.
template <class F>
int guarded(std::string& place, F f) {
  try {
    const Result<void> done = f();
    if (done) return RUBATO_OK;
    return note(place, done.error());
  } catch (const std::bad_alloc&) {
    try {
      place = "no memory is left";
    } catch (...) {
    }
    return RUBATO_NO_MEMORY;
  } catch (const std::exception& error) {
    try {
      place = fmt::format("a bug in rubato: {}", error.what());
    } catch (...) {
    }
    return RUBATO_BUG;
  }
}

// Calls f with the worker, if it is this process's and nobody else is within a call.
template <class F>
int call(rubato_worker* worker, F f) {
  if (!worker)
    return guarded(error_here, [] { return rubato::fail(ErrorCode::BadInput, "no worker"); });
  if (worker->owner != ::getpid()) {
    error_here = kForked;
    return RUBATO_FORKED;
  }
  if (worker->busy.test_and_set()) {
    error_here = kBusy;
    return RUBATO_BUSY;
  }
  const rubato::LogTo lines(worker->log);
  const int code = guarded(worker->error, [&] { return f(*worker->worker); });
  worker->busy.clear();
  return code;
}

std::string text_of(const char* variable, const char* text) {
  const char* const set = std::getenv(variable);
  if (set && *set) return set;
  return text ? text : "";
}

bool flag_of(const char* variable, std::uint32_t flags, std::uint32_t flag) {
  const char* const set = std::getenv(variable);
  return (set && std::string_view(set) == "1") || (flags & flag) != 0;
}

Result<rubato::nodes::LoopRun> run_of(const rubato_options* given) {
  rubato_options options{};
  if (given) {
    if (given->size < sizeof(std::size_t))
      return rubato::fail(ErrorCode::BadInput, "rubato_options: its size is not set");
    std::memcpy(&options, given, std::min(given->size, sizeof options));
  }
  rubato::nodes::LoopRun run;
  run.node.file = text_of("RUBATO_FILE", options.file);
  if (run.node.file.empty())
    return rubato::fail(ErrorCode::BadInput,
                        "no cluster file: name it, or set RUBATO_FILE, as rubato up does");
  run.node.scheduler = text_of("RUBATO_SCHEDULER", options.scheduler);
  run.node.name = text_of("RUBATO_NAME", options.name);
  run.node.sync = text_of("RUBATO_SYNC", options.sync);
  run.node.keys = text_of("RUBATO_KEYS", options.keys);
  run.node.state = text_of("RUBATO_STATE", options.state);
  run.like = text_of("RUBATO_LIKE", options.like);
  if (options.seed != 0) run.node.seed = options.seed;
  if (const std::string seed = text_of("RUBATO_SEED", ""); !seed.empty()) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), value);
    if (error != std::errc() || end != seed.data() + seed.size())
      return rubato::fail(ErrorCode::BadInput,
                          fmt::format("RUBATO_SEED={}: is no whole number", seed));
    run.node.seed = value;
  }
  run.node.insecure = flag_of("RUBATO_INSECURE", options.flags, RUBATO_INSECURE);
  run.stretch = flag_of("RUBATO_STRETCH", options.flags, RUBATO_STRETCH);
  run.throttle.on = flag_of("RUBATO_THROTTLE", options.flags, RUBATO_THROTTLE);
  run.scales_rate = (options.flags & RUBATO_SCALES_RATE) != 0;
  run.resizes_batch = (options.flags & RUBATO_RESIZES_BATCH) != 0;
  run.evaluates = (options.flags & RUBATO_EVALUATES) != 0;
  run.samples = options.samples;
  run.held_out = options.held_out;
  if (const std::string end = text_of(rubato::emulation::kStepChannelVariable, ""); !end.empty())
    run.channel = std::atoi(end.c_str());
  return run;
}

Result<std::vector<rubato::nodes::LoopTensor>> tensors_of(const rubato_tensor* tensors,
                                                          std::size_t count) {
  using rubato::cluster::Element;
  using rubato::nodes::TensorKind;
  if (count > 0 && !tensors) return rubato::fail(ErrorCode::BadInput, "no tensors");
  std::vector<rubato::nodes::LoopTensor> all;
  for (std::size_t i = 0; i < count; ++i) {
    const rubato_tensor& given = tensors[i];
    const auto refused = [&](const std::string& why) {
      return rubato::fail(ErrorCode::BadInput,
                          fmt::format("tensor {}{}{}{}: {}", i + 1, given.name ? " \"" : "",
                                      given.name ? given.name : "", given.name ? "\"" : "", why));
    };
    if (!given.name) return refused("it has no name");
    if (given.dtype > RUBATO_I64) return refused("its type is not one of enum rubato_dtype");
    if (given.kind > RUBATO_STILL) return refused("its kind is not one of enum rubato_kind");
    if (given.rank > rubato::cluster::kTensorRankMax)
      return refused(fmt::format("it has {} dimensions, and {} at most are allowed", given.rank,
                                 rubato::cluster::kTensorRankMax));
    if (given.rank > 0 && !given.shape) return refused("it has no shape");
    auto& tensor = all.emplace_back();
    tensor.name = given.name;
    tensor.shape.assign(given.shape, given.shape + given.rank);
    tensor.kind = static_cast<TensorKind>(given.kind);
    const std::uint64_t elements = rubato::cluster::element_count(tensor.shape);
    if (elements > PTRDIFF_MAX / sizeof(double)) return refused("it is too large");
    tensor.integers = given.dtype == RUBATO_I64;
    tensor.memory = {given.data, tensor.integers ? Element::F32 : static_cast<Element>(given.dtype),
                     elements};
  }
  return all;
}

std::uint32_t action_of(WorkerClient::Action action) {
  switch (action) {
    case WorkerClient::Action::Train:
      return RUBATO_TRAIN;
    case WorkerClient::Action::Seed:
      return RUBATO_SEED;
    case WorkerClient::Action::Commit:
      return RUBATO_COMMIT;
    case WorkerClient::Action::Load:
      return RUBATO_LOAD;
    case WorkerClient::Action::Restart:
      return RUBATO_RESTART;
    case WorkerClient::Action::Evaluate:
      return RUBATO_EVALUATE;
    case WorkerClient::Action::Wait:
      return RUBATO_WAIT;
    case WorkerClient::Action::Over:
      break;
  }
  return RUBATO_OVER;
}

// Writes as much of `from` as the caller's struct has, whose size it keeps.
template <class T>
Result<void> give(T* to, T from) {
  if (!to || to->size < sizeof(std::size_t))
    return rubato::fail(ErrorCode::BadInput, "a struct is missing, or its size is not set");
  from.size = to->size;
  std::memcpy(to, &from, std::min(to->size, sizeof from));
  return {};
}

Result<void> answer(rubato::nodes::LoopWorker& worker, const WorkerClient::Turn& turn,
                    rubato_turn* out) {
  const auto& identity = worker.identity();
  RUBATO_TRY(give(out, rubato_turn{.size = 0,
                                   .action = action_of(turn.action),
                                   .batch = turn.batch,
                                   .worker = identity.worker,
                                   .workers = identity.workers,
                                   .incarnation = turn.joins,
                                   .setbacks = turn.setbacks,
                                   .rate = turn.rate,
                                   .seconds = turn.seconds,
                                   .steps = turn.steps,
                                   .commits = turn.commits,
                                   .bytes_up = turn.bytes_up,
                                   .bytes_down = turn.bytes_down,
                                   .earlier_steps = turn.earlier_steps}));
  if (turn.action == WorkerClient::Action::Over)
    if (const auto error = worker.failure()) return tl::unexpected<Error>(*error);
  return {};
}

// As call(), with the client.
template <class F>
int call_client(rubato_worker* worker, F f) {
  return call(worker, [&](rubato::nodes::LoopWorker& own) -> Result<void> {
    return own.with_client([&](auto& client) -> Result<void> { return f(own, client); });
  });
}

// `made`: a turn, or why there is none.
Result<void> answer(rubato::nodes::LoopWorker& worker, const Result<WorkerClient::Turn>& made,
                    rubato_turn* out) {
  if (!made) return tl::unexpected<Error>(made.error());
  return answer(worker, *made, out);
}

}  // namespace

const char* rubato_version() {
  return RUBATO_VERSION;
}

uint32_t rubato_abi() {
  return RUBATO_ABI;
}

size_t rubato_size_of(const char* struct_name) {
  const std::string_view name = struct_name ? struct_name : "";
  if (name == "rubato_tensor") return sizeof(rubato_tensor);
  if (name == "rubato_options") return sizeof(rubato_options);
  if (name == "rubato_turn") return sizeof(rubato_turn);
  if (name == "rubato_identity") return sizeof(rubato_identity);
  return 0;
}

int rubato_identify(const rubato_options* options, rubato_identity* identity) {
  return guarded(error_here, [&]() -> Result<void> {
    RUBATO_ASSIGN(auto run, run_of(options));
    RUBATO_ASSIGN(const auto found, rubato::nodes::identify(std::move(run)));
    rubato_identity made{};
    made.worker = found.worker;
    made.workers = found.workers;
    made.batch = static_cast<std::uint32_t>(found.batch);
    made.seed = found.seed;
    if (found.data.size() >= sizeof made.data)
      return rubato::fail(ErrorCode::BadInput,
                          fmt::format("workers.data of {} has more than {} bytes", found.name,
                                      sizeof made.data - 1));
    found.name.copy(made.name, sizeof made.name - 1);
    found.data.copy(made.data, sizeof made.data - 1);
    return give(identity, made);
  });
}

int rubato_open(const rubato_options* options, const rubato_tensor* tensors, size_t count,
                rubato_worker** worker) {
  if (worker) *worker = nullptr;
  return guarded(error_here, [&]() -> Result<void> {
    if (!worker) return rubato::fail(ErrorCode::BadInput, "rubato_open: no place for the worker");
    RUBATO_ASSIGN(auto run, run_of(options));
    RUBATO_ASSIGN(auto all, tensors_of(tensors, count));
    rubato::keep_freed_memory(kFreedKeptOfLoop);
    auto made = std::make_unique<rubato_worker>();
    RUBATO_ASSIGN(made->worker,
                  rubato::nodes::LoopWorker::open(std::move(run), std::move(all), made->log));
    *worker = made.release();
    return {};
  });
}

int rubato_step(rubato_worker* worker, double loss_sum, uint64_t samples, rubato_turn* turn) {
  return call_client(worker, [&](auto& own, auto& client) -> Result<void> {
    RUBATO_TRY(own.check_loss(samples));
    const auto known = static_cast<int>(std::min<std::uint64_t>(samples, 1'000'000'000));
    return answer(own, client.step(loss_sum, known), turn);
  });
}

int rubato_commit(rubato_worker* worker, void* const* data, rubato_turn* turn) {
  return call_client(worker, [&](auto& own, auto& client) {
    return answer(own, client.commit(own.memory(data)), turn);
  });
}

int rubato_load(rubato_worker* worker, void* const* data, rubato_turn* turn) {
  return call_client(worker, [&](auto& own, auto& client) {
    return answer(own, client.load(own.memory(data)), turn);
  });
}

int rubato_wait(rubato_worker* worker, uint32_t milliseconds, rubato_turn* turn) {
  return call(worker, [&](auto& own) {
    return answer(own, own.wait(rubato::Duration::from_ms(milliseconds)), turn);
  });
}

int rubato_global(rubato_worker* worker, void* const* data) {
  return call_client(worker,
                     [&](auto& own, auto& client) { return client.global(own.memory(data)); });
}

int rubato_evaluated(rubato_worker* worker, double loss, double accuracy, uint64_t samples,
                     rubato_turn* turn) {
  return call_client(worker, [&](auto& own, auto& client) -> Result<void> {
    RUBATO_TRY(own.check_accuracy(accuracy));
    rubato::proto::Evaluation measured;
    measured.loss = loss;
    measured.accuracy = accuracy;
    measured.samples = samples;
    return answer(own, client.evaluated(measured), turn);
  });
}

int rubato_pull(rubato_worker* worker, void* const* data) {
  return call_client(worker,
                     [&](auto& own, auto& client) { return client.pull(own.memory(data)); });
}

int rubato_share(rubato_worker* worker, const int32_t* labels, size_t samples, int32_t classes,
                 size_t* own) {
  return call(worker, [&](auto& mine) -> Result<void> {
    if (!own) return rubato::fail(ErrorCode::BadInput, "rubato_share: no place for the count");
    const std::size_t labelled = labels ? samples : 0;
    for (std::size_t i = 0; i < labelled; ++i)
      if (labels[i] < 0 || labels[i] >= classes)
        return rubato::fail(ErrorCode::BadInput,
                            fmt::format("rubato_share: the label of sample {} is {}, not 0 to {}",
                                        i, labels[i], classes - 1));
    RUBATO_ASSIGN(*own, mine.share({labels, labelled}, samples, classes));
    return {};
  });
}

int rubato_draw(rubato_worker* worker, uint32_t* indices, size_t count) {
  return call(worker, [&](auto& own) -> Result<void> {
    if (count > 0 && !indices) return rubato::fail(ErrorCode::BadInput, "rubato_draw: no room");
    return own.draw({indices, count});
  });
}

size_t rubato_next_line(rubato_worker* worker, int* level, char* line, size_t room) {
  if (!worker || worker->owner != ::getpid()) return 0;
  const auto next = worker->log.poll();
  if (!next) return 0;
  if (level) *level = static_cast<int>(next->level);
  if (line && room > 0) {
    const std::size_t copied = next->text.copy(line, room - 1);
    line[copied] = '\0';
  }
  return std::max<std::size_t>(next->text.size(), 1);
}

int rubato_close(rubato_worker* worker, const char* why) {
  if (!worker || worker->owner != ::getpid()) return RUBATO_OK;
  const int code = call(worker, [&](auto& own) -> Result<void> {
    own.leave(why && *why ? why : "closed");
    return {};
  });
  if (code == RUBATO_BUSY) return code;
  const std::unique_ptr<rubato_worker> freed(worker);
  return code;
}

const char* rubato_error(const rubato_worker* worker) {
  if (!worker || worker->owner != ::getpid()) return error_here.c_str();
  // A call that found the worker busy has left its line in its own thread.
  return worker->error.c_str();
}
