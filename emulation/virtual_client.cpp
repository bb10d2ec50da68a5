#include "emulation/virtual_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"

namespace rubato::emulation {

using Kind = StepRecord::Kind;

Result<std::unique_ptr<VirtualClient>> VirtualClient::make(
    StepChannel channel, const std::string& described, std::uint64_t parameters, int batch,
    std::span<const cluster::TensorMemory> initial) {
  RUBATO_ASSIGN(auto memory, SharedVector::make(parameters, described));
  cluster::read_tensors(initial, memory.floats());
  StepRecord table{.kind = Kind::Table};
  table.parameters = parameters;
  table.text_bytes = described.size();
  RUBATO_TRY(channel.send(table, memory.descriptor()));
  const bool doubles = std::ranges::any_of(
      initial, [](const auto& tensor) { return tensor.element == cluster::Element::F64; });
  return std::make_unique<VirtualClient>(std::move(channel), std::move(memory), parameters, batch,
                                         doubles);
}

VirtualClient::Turn VirtualClient::turn() const {
  return {.action = said_,
          .batch = order_.batch > 0 ? order_.batch : static_cast<std::uint32_t>(batch_),
          .rate = order_.rate,
          .joins = 1,
          .setbacks = setbacks_,
          .seconds = seconds_,
          .steps = steps_,
          .commits = commits_,
          .bytes_up = 0,
          .bytes_down = 0,
          .earlier_steps = 0};
}

// The order was carried out. What comes next is read by wait().
VirtualClient::Turn VirtualClient::done(StepRecord record) {
  record.kind = Kind::Done;
  said_ = Action::Wait;
  if (!channel_.send(record)) return wait({});  // it tells why
  return turn();
}

Result<void> VirtualClient::expect(Action action, const char* call) const {
  if (said_ == action || said_ == Action::Over) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("{} was called, but the last turn did not ask for it", call));
}

VirtualClient::Turn VirtualClient::wait(Duration at_most) {
  if (said_ != Action::Wait) return turn();
  const auto received = channel_.receive(at_most);
  if (!received) {
    failure_ = Error{ErrorCode::Gone, "the virtual cluster has ended"};
    said_ = Action::Over;
    return turn();
  }
  if (!*received) return turn();
  order_ = **received;
  switch (order_.kind) {
    case Kind::Train:
      said_ = Action::Train;
      seconds_ = order_.seconds;
      break;
    case Kind::Commit:
    case Kind::Take:
    case Kind::Keep:
      said_ = Action::Commit;
      break;
    case Kind::Load:
      said_ = Action::Load;
      break;
    case Kind::Restart:
      said_ = Action::Restart;
      break;
    case Kind::Evaluate:
      said_ = Action::Evaluate;
      break;
    case Kind::Table:
    case Kind::Done:
    case Kind::Left:
    case Kind::Over:
      said_ = Action::Over;
      break;
  }
  return turn();
}

Result<VirtualClient::Turn> VirtualClient::step(double loss_sum, int samples) {
  RUBATO_TRY(expect(Action::Train, "step"));
  if (said_ == Action::Over) return turn();
  ++steps_;
  seconds_ = order_.seconds + order_.takes;
  return done({.loss = loss_sum, .samples = static_cast<std::uint64_t>(samples)});
}

Result<VirtualClient::Turn> VirtualClient::commit(std::span<const cluster::TensorMemory> tensors) {
  RUBATO_TRY(expect(Action::Commit, "commit"));
  if (said_ == Action::Over) return turn();
  if (order_.kind == Kind::Keep) {
    keep(tensors);
    return done({});
  }
  ++commits_;
  return done({.finite = take(tensors) ? 1U : 0U});
}

// The memory goes round: parameters, which are the base, then U in their place. A worker that
// trains before the next parameters are there needs a base of its own.
bool VirtualClient::take(std::span<const cluster::TensorMemory> tensors) {
  const bool own = order_.trains_on != 0 || doubles_;
  const std::span<float> memory = memory_.floats();
  if (order_.kind == Kind::Take) {
    cluster::read_tensors(tensors, memory);
    difference_.forget();
    based_ = false;
    if (own) difference_.stand_on_moved(memory);
    return all_finite(memory);
  }
  if (std::exchange(based_, false)) {
    if (!own) return cluster::subtract_tensors(tensors, memory);
    difference_.stand_on_moved(memory);
  }
  const auto taken = own ? difference_.take(tensors) : difference_.take_over(tensors);
  std::ranges::copy(*taken.values, memory.begin());
  return taken.finite;
}

void VirtualClient::keep(std::span<const cluster::TensorMemory> tensors) {
  if (difference_.based()) return;
  const std::span<float> memory = memory_.floats();
  if (!std::exchange(based_, false)) cluster::read_tensors(tensors, memory);
  difference_.stand_on_moved(memory);
}

Result<VirtualClient::Turn> VirtualClient::load(std::span<const cluster::TensorMemory> tensors) {
  RUBATO_TRY(expect(said_ == Action::Restart ? Action::Restart : Action::Load, "load"));
  if (said_ == Action::Over) return turn();
  if (said_ == Action::Restart) {
    difference_.forget();
    ++setbacks_;
  }
  difference_.load(tensors, memory_.floats());
  if (difference_.based()) return done({});
  cluster::read_rounded(tensors, memory_.floats());
  if (doubles_)
    difference_.stand_on_moved(memory_.floats());
  else
    based_ = true;
  return done({});
}

Result<VirtualClient::Turn> VirtualClient::evaluated(const proto::Evaluation& measured) {
  RUBATO_TRY(expect(Action::Evaluate, "evaluated"));
  if (said_ == Action::Over) return turn();
  return done({.loss = measured.loss, .accuracy = measured.accuracy, .samples = measured.samples});
}

Result<void> VirtualClient::global(std::span<const cluster::TensorMemory> tensors) {
  RUBATO_TRY(expect(Action::Evaluate, "global"));
  if (said_ != Action::Over) cluster::write_tensors(tensors, memory_.floats());
  return {};
}

Result<void> VirtualClient::pull(std::span<const cluster::TensorMemory> tensors) {
  RUBATO_TRY(expect(Action::Train, "pull"));
  if (difference_.based())
    difference_.undo(tensors);
  else if (based_)
    cluster::write_tensors(tensors, memory_.floats());
  return {};
}

void VirtualClient::leave(const std::string& why) {
  const bool failed = why.starts_with("exception") || why == "interrupted";
  [[maybe_unused]] const auto told =
      channel_.send({.kind = Kind::Left, .finite = failed ? 0U : 1U});
  channel_.close();
  said_ = Action::Over;
}

}  // namespace rubato::emulation
