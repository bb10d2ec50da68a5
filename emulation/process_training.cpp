#include "emulation/process_training.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rubato::emulation {

using Kind = StepRecord::Kind;

Result<std::unique_ptr<ProcessTraining>> ProcessTraining::start(
    std::shared_ptr<LoopLauncher> launcher, Options options) {
  auto made = std::make_unique<ProcessTraining>(std::move(launcher), std::move(options));
  RUBATO_TRY(made->begin());
  return made;
}

Result<void> ProcessTraining::begin() {
  loops_ = std::vector<Loop>(options_.workers.size() + 1);
  for (std::size_t i = 0; i < options_.workers.size(); ++i)
    if (options_.begins[i]) RUBATO_TRY(launch(loops_[i], options_.workers[i], false));
  for (Loop& loop : loops_) {
    if (!loop.process) continue;
    const bool first = table_.tensors.empty();
    RUBATO_ASSIGN(const auto described, describe(loop));
    samples_ += described.samples;
    if (!first) continue;
    evaluates_ = described.held_out > 0;
    const auto values = loop.memory.floats();
    initial_.assign(values.begin(), values.end());
  }
  if (!evaluates_) return {};
  RUBATO_TRY(launch(evaluator(), options_.workers.front(), true));
  RUBATO_TRY(describe(evaluator()));
  return {};
}

Result<void> ProcessTraining::launch(Loop& loop, const std::string& name, bool evaluates) {
  LoopLauncher::Environment environment{{"RUBATO_FILE", options_.file},
                                        {"RUBATO_NAME", name},
                                        {"RUBATO_SYNC", options_.sync},
                                        {"RUBATO_SEED", std::to_string(options_.seed)},
                                        {"RUBATO_LIFE", std::to_string(loop.lives++)},
                                        {"OMP_NUM_THREADS", "1"},
                                        {"OPENBLAS_NUM_THREADS", "1"}};
  if (evaluates) environment["RUBATO_ROLE"] = "evaluator";
  if (!options_.curves.empty()) environment["RUBATO_CURVES"] = options_.curves;
  RUBATO_ASSIGN(loop.process, launcher_->start(evaluates ? "evaluator" : name, environment));
  return {};
}

Result<cluster::DescribedTable> ProcessTraining::describe(Loop& loop) {
  int memory = -1;
  auto record = loop.process->channel().receive(options_.patience, &memory);
  if (!record) return tl::unexpected<Error>(lost(loop));
  if (!*record)
    return fail(ErrorCode::Timeout,
                fmt::format("{}: its program does not open a worker: no word of it "
                            "for {:.0f} s",
                            who(loop), options_.patience.seconds()));
  if ((*record)->kind != Kind::Table || memory < 0)
    return fail(ErrorCode::Corrupt,
                fmt::format("{}: its process speaks another version of librubato", who(loop)));
  RUBATO_ASSIGN(loop.memory,
                SharedVector::map(memory, (*record)->parameters, (*record)->text_bytes));
  RUBATO_ASSIGN(auto described, cluster::described_table_of(loop.memory.text()));
  if (described.table.parameters() != (*record)->parameters)
    return fail(ErrorCode::Corrupt, fmt::format("{}: its memory is not of its model", who(loop)));
  if (table_.tensors.empty()) {
    table_ = described.table;
    table_of_ = who(loop);
  }
  RUBATO_TRY(cluster::check_equal(described.table, who(loop), table_, table_of_));
  return described;
}

std::string ProcessTraining::who(const Loop& loop) const {
  return &loop == &loops_.back() ? "the evaluator" : "worker " + loop.process->name();
}

// What it has printed is shown before the line of the error.
Error ProcessTraining::lost(Loop& loop) {
  const std::string words = loop.process->last_words();
  return {ErrorCode::Gone,
          fmt::format("{}: {} before the run was over{}", who(loop), loop.process->fate(), words)};
}

Error ProcessTraining::left(Loop& loop) {
  if (loop.answer.finite != 0) return {ErrorCode::Stopped, "its loop has ended"};
  return {ErrorCode::Gone, fmt::format("{}: its loop ended by an exception{}", who(loop),
                                       loop.process->last_words())};
}

// --- who computes when ---------------------------------------------------------------------------

void ProcessTraining::submit(Loop& loop, StepRecord order) {
  loop.order = order;
  loop.waiting = true;
  queue_.push_back(&loop);
  dispatch();
}

void ProcessTraining::dispatch() {
  while (running_ < options_.threads && !queue_.empty()) {
    Loop& loop = *queue_.front();
    queue_.pop_front();
    loop.waiting = false;
    loop.running = true;
    ++running_;
    // A process that is gone is noticed when its answer is awaited.
    [[maybe_unused]] const auto sent = loop.process->channel().send(loop.order);
  }
}

Result<void> ProcessTraining::finish(Loop& loop) {
  while (loop.waiting || loop.running) {
    std::vector<pollfd> waits;
    std::vector<Loop*> whose;
    for (Loop& each : loops_) {
      if (!each.running) continue;
      waits.push_back({each.process->channel().descriptor(), POLLIN, 0});
      whose.push_back(&each);
    }
    const int ready = ::poll(waits.data(), waits.size(), static_cast<int>(options_.patience.ms()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      return fail(ErrorCode::Timeout,
                  fmt::format("{}: no answer for {:.0f} s: a step, or an evaluation, takes too "
                              "long",
                              who(loop), options_.patience.seconds()));
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      Loop& each = *whose[i];
      const auto record = each.process->channel().receive({});
      if (!record) return tl::unexpected<Error>(lost(each));
      if (!*record) continue;
      each.answer = **record;
      each.running = false;
      --running_;
    }
    dispatch();
  }
  if (loop.answer.kind != Kind::Done) return tl::unexpected<Error>(left(loop));
  return {};
}

Result<void> ProcessTraining::carry_out(Loop& loop, StepRecord order) {
  // A loop that has left may have said so before the order.
  [[maybe_unused]] const auto sent = loop.process->channel().send(order);
  const auto record = loop.process->channel().receive(options_.patience);
  if (!record) return tl::unexpected<Error>(lost(loop));
  if (!*record)
    return fail(ErrorCode::Timeout,
                fmt::format("{}: no answer for {:.0f} s", who(loop), options_.patience.seconds()));
  loop.answer = **record;
  if (loop.answer.kind != Kind::Done) return tl::unexpected<Error>(left(loop));
  return {};
}

// --- what the cluster asks for -------------------------------------------------------------------

Result<void> ProcessTraining::keep_base(Loop& loop) {
  RUBATO_TRY(carry_out(loop, {.kind = Kind::Keep}));
  loop.base = Base::Own;
  return {};
}

Result<void> ProcessTraining::begin_step(std::uint32_t index, const train::StepPlan& plan,
                                         StepTime time) {
  // It was to wait for the reply, but a server is away.
  if (loops_[index].base == Base::None) RUBATO_TRY(keep_base(loops_[index]));
  StepRecord order{.kind = Kind::Train};
  order.batch = static_cast<std::uint32_t>(plan.batch);
  order.rate = plan.rate;
  order.seconds = time.began;
  order.takes = time.takes;
  submit(loops_[index], order);
  return {};
}

Result<train::BatchResult> ProcessTraining::end_step(std::uint32_t index) {
  Loop& loop = loops_[index];
  RUBATO_TRY(finish(loop));
  return train::BatchResult{.loss_sum = loop.answer.loss,
                            .samples = static_cast<int>(loop.answer.samples)};
}

Result<void> ProcessTraining::restart(std::uint32_t index) {
  Loop& loop = loops_[index];
  if (loop.process) loop.process->kill();
  loop.process.reset();
  loop.base = Base::None;
  RUBATO_TRY(launch(loop, options_.workers[index], false));
  RUBATO_ASSIGN(const auto described, describe(loop));
  return {};
}

Result<worker::Update> ProcessTraining::take_update(std::uint32_t index, Taking taking) {
  Loop& loop = loops_[index];
  RUBATO_TRY(carry_out(loop, {.kind = taking.elastic ? Kind::Take : Kind::Commit,
                              .trains_on = taking.trains_on ? 1U : 0U}));
  loop.base = taking.trains_on ? Base::Own : Base::None;
  const auto values = loop.memory.floats();
  // The buffer of the commit before, unless somebody still holds it.
  if (!loop.update || loop.update.use_count() > 1)
    loop.update = std::make_shared<Floats>(values.size());
  std::ranges::copy(values, loop.update->begin());
  return worker::Update{loop.update, loop.answer.finite != 0};
}

Result<void> ProcessTraining::load(std::uint32_t index, std::span<const float> parameters,
                                   Since since) {
  Loop& loop = loops_[index];
  const bool restarts = since == Since::Dropped;
  // It has joined again, with steps since its last commit.
  if (loop.base == Base::Memory && !restarts) RUBATO_TRY(keep_base(loop));
  std::ranges::copy(parameters, loop.memory.floats().begin());
  RUBATO_TRY(carry_out(loop, {.kind = restarts ? Kind::Restart : Kind::Load}));
  if (loop.base == Base::None || restarts) loop.base = Base::Memory;
  return {};
}

void ProcessTraining::begin_evaluation(std::span<const float> parameters) {
  std::ranges::copy(parameters, evaluator().memory.floats().begin());
  submit(evaluator(), {.kind = Kind::Evaluate});
}

Result<train::EvaluationResult> ProcessTraining::end_evaluation() {
  RUBATO_TRY(finish(evaluator()));
  return train::EvaluationResult{.loss = evaluator().answer.loss,
                                 .accuracy = evaluator().answer.accuracy};
}

}  // namespace rubato::emulation
